-- KEYS[2]: the live sequences.
local live = KEYS[2]
local me, id, key, limit, ahead, idle = ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9]
-- The token is that of the call, the same in each of its attempts, which are over after the time behind it.
local token, attempts = ARGV[10], ARGV[11]
local chosen = id == '0'
-- First, since a script is refused for want of memory at its first write only.
local epoch = renew(base .. 'epoch')
if chosen then
  id = redis.call('GET', base .. (key ~= '' and 'k:' .. key or 't:' .. token)) or '0'
end
-- Lives, and not only just begun by a request that has not come to its end.
local lives = false
if id ~= '0' then
  local found = redis.call('HMGET', base .. 's:' .. id, 'e', 'x', 'k', 'a', 'i', 'b', 'g', 'p', 'w')
  -- The attempt before has begun it, and its answer was lost. Nobody can have taken it: its owner has written nothing.
  local again = found[6] == token
  -- Nobody can go on with it, unless it is over, so that it makes room.
  local lost = found[1] and not found[2] and stale(found[7], found[8], found[9])
  if again and not lost then
    if chosen and key == '' then
      redis.call('PEXPIRE', base .. 't:' .. token, attempts)
    end
    return { 'begun', id, found[1] }
  end
  -- The answer of a start is in the record once it is stored; until then its owner has it.
  local same = found[3] == key or (found[5] == key and found[4] ~= 's')
  if found[1] and key ~= '' and same and not again and not lost then
    return { 'repeated', id }
  end
  lives = found[1] and not found[2]
  if lives and (found[4] == 's' or again or (lost and not chosen)) then
    redis.call('ZREM', live, id)
    lives = false
  elseif chosen then
    id = '0'
    lives = false
  end
end
-- Those that are over stay until they are counted.
if redis.call('ZCOUNT', live, '(' .. string.format('%.0f', now), '+inf') >= tonumber(limit) then
  return { 'full' }
end
if lives then
  return { 'exists' }
end
if id == '0' then
  local counted = redis.call('HMGET', base .. 'next', 'n', 'g', 'p', 'w')
  local number = tonumber(counted[1] or '0')
  if not counted[1] or stale(counted[2], counted[3], counted[4]) then
    -- Beyond what has been given and forgotten: whoever has such an id must not meet another sequence.
    number = math.max(number + 1000000, now)
  end
  while redis.call('HGET', base .. 's:' .. string.format('%.0f', number), 'a') do
    number = number + 1
  end
  id = string.format('%.0f', number)
  redis.call('HSET', base .. 'next', 'n', id, 'g', run, 'p', failover, 'w', waited)
end
local record = base .. 's:' .. id
forget_start(record, id)
redis.call('DEL', record)
redis.call('HSET', record, 'o', me, 'e', epoch, 'n', 0, 'a', ahead, 'g', run, 'p', failover, 'w', waited, 'b', token)
if key ~= '' then
  redis.call('HSET', record, 'i', key)
end
keep(record, live, id, idle)
if chosen and key ~= '' and tonumber(idle) > 0 then
  redis.call('SET', base .. 'k:' .. key, id, 'PX', string.format('%.0f', math.max(tonumber(idle), remembered)))
elseif chosen and key ~= '' then
  redis.call('SET', base .. 'k:' .. key, id)
elseif chosen then
  redis.call('SET', base .. 't:' .. token, id, 'PX', attempts)
end
return { 'begun', id, epoch }

-- KEYS[2], KEYS[3]: the record, and the live sequences.
local id, epoch, key, answer, kept = ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local found = redis.call('HMGET', KEYS[2], 'e', 'g', 'p', 'w')
if not found[1] then
  if waited == '1' then
    -- The attempt before may have ended it: replicas that have this write have that one, too.
    renew(base .. 'epoch')
  end
  return { 'unknown' }
end
if found[1] ~= epoch or stale(found[2], found[3], found[4]) then
  return { 'fenced' }
end
redis.call('ZREM', KEYS[3], id)
local begun_with = forget_start(KEYS[2], id)
redis.call('DEL', KEYS[2])
if key ~= '' then
  redis.call('HSET', KEYS[2], 'e', epoch, 'a', '0', 'x', 1, 'k', key, 'r', answer, 'g', run, 'p', failover, 'w', waited)
  if begun_with then
    -- That start, if it comes late, begins no other sequence.
    redis.call('HSET', KEYS[2], 'i', begun_with)
  end
  redis.call('PEXPIRE', KEYS[2], kept)
end
return { 'stored' }

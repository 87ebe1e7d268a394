-- KEYS: the record, and the live sequences.
local id, epoch, step, ahead, idle = ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local state, key, answer, recent = ARGV[9], ARGV[10], ARGV[11], ARGV[12]
local found = redis.call('HMGET', KEYS[1], 'e', 'n', 'x', 'g', 'w', 'm')
if found[1] ~= epoch or found[3] or tonumber(found[2]) > tonumber(step) or stale(found[4], found[5]) then
  return { 'fenced' }
end
local stepped = tonumber(found[2]) < tonumber(step) and string.format('%.0f', now) or found[6] or '0'
redis.call('HSET', KEYS[1], 'm', stepped, 'h', recent, 'n', step, 'a', ahead, 'g', run, 'w', waited)
if state ~= '' then
  redis.call('HSET', KEYS[1], 't', state)
end
if key ~= '' then
  redis.call('HSET', KEYS[1], 'k', key, 'r', answer)
else
  redis.call('HDEL', KEYS[1], 'k', 'r')
end
keep(KEYS[1], KEYS[2], id, idle)
return { 'stored' }

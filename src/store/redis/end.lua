-- KEYS: the record, and the live sequences.
local id, epoch, key, answer, kept = ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local found = redis.call('HMGET', KEYS[1], 'e', 'g', 'w')
if not found[1] then
  return { 'unknown' }
end
if found[1] ~= epoch or stale(found[2], found[3]) then
  return { 'fenced' }
end
redis.call('ZREM', KEYS[2], id)
redis.call('DEL', KEYS[1])
if key ~= '' then
  redis.call('HSET', KEYS[1], 'e', epoch, 'a', '0', 'x', 1, 'k', key, 'r', answer, 'g', run, 'w', waited)
  redis.call('PEXPIRE', KEYS[1], kept)
end
return { 'stored' }

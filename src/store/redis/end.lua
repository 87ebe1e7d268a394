-- KEYS: the record, and the live sequences.
local id, epoch, key, answer, kept = ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local found = redis.call('HGET', KEYS[1], 'e')
if not found then
  return { 'unknown' }
end
if found ~= epoch then
  return { 'fenced' }
end
redis.call('ZREM', KEYS[2], id)
redis.call('DEL', KEYS[1])
if key ~= '' then
  redis.call('HSET', KEYS[1], 'e', epoch, 'a', '0', 'x', 1, 'k', key, 'r', answer, 'g', run, 'w', waited)
  redis.call('PEXPIRE', KEYS[1], kept)
end
return { 'stored' }

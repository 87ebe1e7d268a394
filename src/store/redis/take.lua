-- KEYS: the record, the live sequences, and the counter of epochs. ARGV[6] is 1 if its owner is gone.
local me, id, gone = ARGV[4], ARGV[5], ARGV[6]
local found = redis.call('HMGET', KEYS[1], 'o', 'e', 'n', 'a', 'x', 'k', 'r', 't', 'g', 'w')
local owner, step, ahead = found[1], found[3], found[4]
if not found[2] then
  return { 'unknown' }
end
if found[5] then
  return { 'ended', found[6] or '', found[7] or '' }
end
local old = stale(found[9], found[10])
if ahead ~= '0' and owner ~= me and gone ~= '1' and not old then
  return { 'held', owner }
end
if ahead ~= '0' or old then
  redis.call('DEL', KEYS[1])
  redis.call('ZREM', KEYS[2], id)
  return { ahead == 's' and 'unknown' or 'lost' }
end
local epoch = next_epoch(KEYS[3])
redis.call('HSET', KEYS[1], 'o', me, 'e', epoch, 'g', run, 'w', waited)
return { 'taken', epoch, step, found[6] or '', found[7] or '', found[8] or '' }

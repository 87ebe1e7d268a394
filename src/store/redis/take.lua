-- KEYS[2], KEYS[3]: the record, and the live sequences. ARGV[6] is the name of a server that is gone,
-- if the caller has found one out: by now another may own it.
local me, id, gone = ARGV[4], ARGV[5], ARGV[6]
local found = redis.call('HMGET', KEYS[2], 'o', 'e', 'n', 'a', 'x', 'k', 'r', 't', 'g', 'p', 'w', 'm', 'h')
local owner, step, ahead = found[1], found[3], found[4]
if not found[2] then
  return { 'unknown' }
end
if found[5] then
  return { 'ended', found[6] or '', found[7] or '' }
end
local old = stale(found[9], found[10], found[11])
if ahead ~= '0' and owner ~= me and gone ~= owner and not old then
  return { 'held', owner }
end
if ahead ~= '0' or old then
  forget_start(KEYS[2], id)
  redis.call('DEL', KEYS[2])
  redis.call('ZREM', KEYS[3], id)
  return { ahead == 's' and 'unknown' or 'lost' }
end
local epoch = renew(base .. 'epoch')
redis.call('HSET', KEYS[2], 'o', me, 'e', epoch, 'g', run, 'p', failover, 'w', waited)
-- Rather more than less: both times are cut to milliseconds.
local since = found[12] and string.format('%.0f', now - found[12] + 1) or ''
return { 'taken', epoch, step, found[6] or '', found[7] or '', found[8] or '', since, found[13] or '', found[2] }

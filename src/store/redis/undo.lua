-- KEYS[2]: the live sequences. Takes back a start whose caller has not heard of it, so that nobody has gone on with it.
local id, key, token = ARGV[4], ARGV[5], ARGV[6]
local given = id == '0' and base .. (key ~= '' and 'k:' .. key or 't:' .. token)
if given then
  id = redis.call('GET', given) or '0'
end
local record = base .. 's:' .. id
if redis.call('HGET', record, 'b') == token then
  redis.call('ZREM', KEYS[2], id)
  redis.call('DEL', record)
  if given then
    redis.call('DEL', given)
  end
end
return { 'undone' }

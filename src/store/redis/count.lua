-- KEYS[2]: the live sequences.
local expired = redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
return { 'counted', tostring(redis.call('ZCARD', KEYS[2])), tostring(expired) }

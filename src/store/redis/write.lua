-- KEYS[2], KEYS[3]: the record, and the live sequences.
local id, epoch, step, ahead, idle = ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local state, key, answer, recent = ARGV[9], ARGV[10], ARGV[11], ARGV[12]
local found = redis.call('HMGET', KEYS[2], 'e', 'n', 'x', 'g', 'p', 'w', 'm', 'k', 'l')
if found[1] ~= epoch or found[3] or tonumber(found[2]) > tonumber(step) or stale(found[4], found[5], found[6]) then
  return { 'fenced' }
end
local stepped = tonumber(found[2]) < tonumber(step) and string.format('%.0f', now) or found[7] or '0'
local fields = { 'm', stepped, 'h', recent, 'n', step, 'a', ahead, 'g', run, 'p', failover, 'w', waited }
local function set(name, value)
  fields[#fields + 1] = name
  fields[#fields + 1] = value
end
if state ~= '' then
  set('t', state)
end
if key ~= '' then
  set('k', key)
  set('r', answer)
end
-- Not each time: an eighth of the time earlier or later makes no difference, and what stays for ever stays. Never
-- without a time: that is no use of it.
local kept, forever = found[9], tonumber(idle) == 0
local keeps = idle ~= '' and (not kept or (kept == 'inf') ~= forever)
if idle ~= '' and not keeps and not forever then
  keeps = now - kept > idle / 8
end
if keeps then
  set('l', forever and 'inf' or string.format('%.0f', now))
end
-- First, since a script is refused for want of memory at its first write only.
redis.call('HSET', KEYS[2], unpack(fields))
if key == '' and found[8] then
  redis.call('HDEL', KEYS[2], 'k', 'r')
end
if keeps then
  keep(KEYS[2], KEYS[3], id, idle)
end
return { 'stored' }

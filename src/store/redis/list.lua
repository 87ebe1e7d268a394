-- KEYS[2]: the live sequences. ARGV[4] is how many are wanted at most.
local ids = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. string.format('%.0f', now), '+inf', 'LIMIT', 0, ARGV[4])
local answer = { 'listed' }
for _, id in ipairs(ids) do
  local found = redis.call('HMGET', base .. 's:' .. id, 'n', 'm', 'a')
  -- Not one whose first step has not come to its end.
  if found[1] and found[3] ~= 's' then
    local idle = found[2] and tonumber(found[2]) > 0 and string.format('%.0f', now - found[2]) or ''
    answer[#answer + 1] = id
    answer[#answer + 1] = found[1]
    answer[#answer + 1] = idle
  end
end
return answer

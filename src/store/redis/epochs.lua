-- ARGV from 4 on are ids. The answer has the epoch of the owner of each, and nothing for those that there are not.
local answer = { 'epochs' }
for place = 4, #ARGV do
  answer[#answer + 1] = redis.call('HGET', base .. 's:' .. ARGV[place], 'e') or ''
end
return answer

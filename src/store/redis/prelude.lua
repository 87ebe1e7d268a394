-- Begins every script. ARGV[1] is the time until which a call counts, by the clock of this server: one that
-- was held up on its way has been tried again by then, and must not undo what has happened since.
-- KEYS[1] is the beginning of the model's keys, which are all on one node.
-- ARGV[2] is 1 if this server loses nothing that it has answered when it starts again, else 0, and behind that its run
-- and the one before, if the caller knows them of its connection: to ask takes longer than the rest.
-- ARGV[3] is 1 if what is written now is waited for until replicas have it.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
if now > tonumber(ARGV[1]) then
  return { 'late', tostring(now) }
end
local durable, run, before = string.match(ARGV[2], '(%d) ?(%x*) ?(%x*)')
local waited = ARGV[3]
-- The run of the data set is another one after a restart or a failover, and now and then when a first replica comes.
if run == '' then
  local replication = redis.call('INFO', 'replication')
  run = string.match(replication, 'master_replid:(%x+)')
  before = string.match(replication, 'master_replid2:(%x+)')
end
-- The last failover that there was: what came before it may lack the newest, and no restart changes that.
local base = KEYS[1]
local failover = redis.call('GET', base .. 'failover') or ''
if string.find(before, '[^0]') and before ~= failover then
  failover = before
  redis.call('SET', base .. 'failover', failover)
end
-- Whether something newer than a record may have been lost since it was written.
local function stale(record_run, record_failover, record_waited)
  if record_waited == '1' then
    return false
  elseif durable == '1' then
    return record_failover ~= failover
  end
  return record_run ~= run
end
-- The next epoch. Counts begin again where the newest are lost; no two runs of the data set have the same epochs.
local function renew(counter)
  return string.format('%.0f', tonumber(string.sub(run, 1, 5), 16) * 2 ^ 32 + redis.call('INCR', counter))
end
-- Keeps a record and its place among the live ones for a while; for ever if 0.
local function keep(record, live, id, idle)
  if tonumber(idle) > 0 then
    redis.call('PEXPIRE', record, idle)
    redis.call('ZADD', live, now + idle, id)
  else
    redis.call('PERSIST', record)
    redis.call('ZADD', live, '+inf', id)
  end
end
-- Minimum time for which it is known, in milliseconds, what was answered to a request that may come again.
local remembered = 300000
-- Lets the id that a start was given be forgotten after a while: its record, which may have stayed for ever, goes.
-- Returns the key of that start; nothing if it chose the id itself.
local function forget_start(record, id)
  local key = redis.call('HGET', record, 'i')
  if key and redis.call('GET', base .. 'k:' .. key) == id then
    redis.call('PEXPIRE', base .. 'k:' .. key, remembered)
    return key
  end
end

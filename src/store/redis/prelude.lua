-- Begins every script. ARGV[1] is the time until which a call counts, by the clock of this server: one that
-- was held up on its way has been tried again by then, and must not undo what has happened since.
-- ARGV[2] is 1 if this server loses nothing that it has answered when it starts again,
-- ARGV[3] is 1 if what is written now is waited for until replicas have it.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
if now > tonumber(ARGV[1]) then
  return { 'late', tostring(now) }
end
local durable, waited = ARGV[2], ARGV[3]
-- The run of the data set is another one after a restart or a failover.
local replication = redis.call('INFO', 'replication')
local run = string.match(replication, 'master_replid:(%x+)')
local before = string.match(replication, 'master_replid2:(%x+)')
-- Whether something newer than a record may have been lost since it was written.
local function stale(record_run, record_waited)
  return record_run ~= run and record_waited ~= '1' and (durable ~= '1' or record_run == before)
end
-- Counts epochs. A counter that was lost, or is an older one, counts again what it has counted before: the end
-- of a number is that of the run, so that no server takes another's epoch for its own.
local function next_epoch(counter)
  return redis.call('INCR', counter) .. string.format('%07d', tonumber(string.sub(run, 1, 5), 16))
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

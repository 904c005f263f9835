-- needs: basics, chunks
-- Store a sample and what is merged with it.  The time, and whether its sender is the sampler of the minute.
--
--   series        when a minute or a stretch began | reporter, with the same instant as score
--   series_data   by the same name: the width of the stretch, 0 for a sample | the bytes
local now, reporter, minute, from, before, merged, kept = instant(A[1]), A[2], A[3], A[4], A[5], A[6], A[7]

local SAMPLER = '*'
local is_sampler = 0

local function store(at, of, width, data)
  local member = due(at) .. of
  redis.call('ZADD', P .. 'series', at, member)
  redis.call('HSET', P .. 'series_data', member, due(width) .. data)
end

local function drop(first, before)
  local members = redis.call('ZRANGEBYSCORE', P .. 'series', first, string.format('(%.0f', before))
  in_chunks('ZREM', 'series', members)
  in_chunks('HDEL', 'series_data', members)
end

if from <= now and now < before then
  if reporter ~= SAMPLER and redis.call('HEXISTS', P .. 'series_data', due(minute) .. SAMPLER) == 0 then
    store(minute, SAMPLER, 0, '')
    is_sampler = 1
  end
  store(minute, reporter, 0, ARGV[2])
end
for at, stretch in ipairs(merged) do
  local start, width, earliest, latest = unpack(stretch)
  if earliest <= now and now < latest then
    drop(start, start + width)
    store(start, SAMPLER, width, ARGV[2 + at])
  end
end
if reporter == SAMPLER then drop('-inf', now - kept) end
return {string.format('%.0f', now), is_sampler}

-- Claims and successes of usual jobs, many at a time, by cutting and joining records: a string costs what it is long.

-- A worker's successes of jobs that carry no key and were not asked to cancel.  `note_member` is given a member of a flow; a
-- script without it takes none.  Returns a function that takes one, and says whether it was usual; and one that writes them
-- all.
local function completer(owner, now, note_member)
  local ids, records, ended_as, tombs, results = {}, {}, {}, {}, {}
  local usual, kept_count, tomb_count, result_count = 0, 0, 0, 0
  local fences = {}
  local flags_from, size_from, rest_from = FROM.flags + #owner, FROM.size + #owner, FROM.rest + #owner
  local no_size = string.rep('\0', FROM.rest - FROM.size)
  local finished, buried = patch(COMPLETED, now, nil, false, true), patch(COMPLETED, now, nil, true, true)
  local further_most = note_member and IS_SUSPECT + IS_MEMBER or IS_SUSPECT
  local by_queue, large = {}, {}
  local packed = {}  -- what is counted, by the packed names of queues

  -- What is counted of the queue of a record; nil if that is no text.
  local function counts_of(raw)
    local length = byte(raw, rest_from + 1) or 0
    length = length == 217 and (byte(raw, rest_from + 2) or 0) + 1 or length - 160  -- else a name of less than 32 bytes
    local name = sub(raw, rest_from, rest_from + 1 + length)
    if packed[name] then return packed[name] end
    local queue = length >= 0 and length < 32 and #name == 2 + length and sub(name, 3)
    if not queue then
      local is_whole, after
      is_whole, after, queue = pcall(cmsgpack.unpack_limit, raw, 1, rest_from)
      if not is_whole or type(queue) ~= 'string' then return nil end
      name = sub(raw, rest_from, after)
    end
    local counts = by_queue[queue] or {0, 0}
    by_queue[queue], packed[name] = counts, counts
    return counts
  end

  local function complete(id, raw, token, drop, result)
    local usual_fence = fences[token]
    if not usual_fence then
      usual_fence = fence(EXECUTING, token, owner) .. '\0'  -- no flags but those in the next byte: of a suspect, of a member
      fences[token] = usual_fence
    end
    if not raw or sub(raw, 1, flags_from) ~= usual_fence then return false end
    local further = byte(raw, flags_from + 1)
    if further > further_most then return false end
    if further >= IS_MEMBER and (drop or not note_member(id, raw, rest_from)) then return false end
    local changes = counts_of(raw)
    if not changes then return false end
    usual = usual + 1
    ids[usual] = id
    changes[1] = changes[1] + 1
    if drop then
      local _, _, _, size = struct.unpack(FORMAT.header, raw, flags_from)
      if size == 0 then large[#large + 1] = id end
      records[2 * usual - 1] = id
      records[2 * usual] = buried .. sub(raw, 1, size_from - 1) .. no_size .. sub(raw, rest_from, -size - 1)
      tombs[tomb_count + 1], tombs[tomb_count + 2] = '0', id
      tomb_count = tomb_count + 2
    else
      records[2 * usual - 1], records[2 * usual] = id, finished .. raw
      ended_as[kept_count + 1], ended_as[kept_count + 2] = '0', id
      kept_count = kept_count + 2
      changes[2] = changes[2] + 1
      if result then
        results[result_count + 1], results[result_count + 2] = id, ARGV[result]
        result_count = result_count + 2
      end
    end
    return true
  end

  local function write()
    if usual == 0 then return end
    in_chunks('SREM', 'leases:' .. owner, ids)
    in_chunks('ZREM', 'live', ids)
    in_chunks('HSET', 'jobs', records)
    if kept_count > 0 then in_chunks('ZADD', 'ended:' .. COMPLETED, ended_as) end
    if result_count > 0 then in_chunks('HSET', 'results', results) end
    if tomb_count > 0 then
      in_chunks('ZADD', 'tombs', tombs)
      in_chunks('HDEL', 'sealed', large)
    end
    for queue, of_queue in pairs(by_queue) do
      count(queue, EXECUTING, -of_queue[1])
      count(queue, COMPLETED, of_queue[2])
    end
    ended = ended + usual
  end

  return complete, write
end

-- What a script claims for a worker: ids; leases, which are ids and records by turns; the ids of those whose sealed bytes lie
-- elsewhere; and how many.
local function claimer(owner, now)
  local claim = {ids = {}, leases = {}, large = {}, size = 0}
  local ids, leases, large = claim.ids, claim.leases, claim.large
  -- No owner and no flags, or but the one of members: what follows the delivery number of a usual job.
  local usual = {['\0' .. struct.pack(FORMAT.flags, 0)] = true, ['\0' .. struct.pack(FORMAT.flags, IS_MEMBER)] = true}
  local elsewhere = string.rep('\0', FROM.rest - FROM.size)  -- a size
  local heads, started = {}, due(now)  -- by what a record begins with, what it begins with when it is claimed
  local begins, gsub = '^' .. string.rep('.', FROM.due - 1), string.gsub  -- cutting and joining would hash two long strings

  function claim.take(id, raw)
    local size = claim.size + 1
    claim.size, ids[size], leases[2 * size - 1], leases[2 * size] = size, id, id, raw
  end

  -- The next delivery number, owner and start.  False: the job is none of the usual.
  function claim.take_usual(id, raw)
    local taken = gsub(raw, begins, heads)
    if taken == raw then  -- the first that begins like this
      if not usual[sub(raw, FROM.owner, FROM.started - 1)] then return false end
      local _, number = struct.unpack(FORMAT.fence, raw)
      local head = fence(EXECUTING, number + 1, owner) .. sub(raw, FROM.flags, FROM.started - 1) .. started
      heads[sub(raw, 1, FROM.due - 1)] = head
      taken = head .. sub(raw, FROM.due)
    end
    if sub(raw, FROM.size, FROM.rest - 1) == elsewhere then large[#large + 1] = id end
    local size = claim.size + 1
    claim.size, ids[size], leases[2 * size - 1], leases[2 * size] = size, id, id, taken
    return true
  end

  return claim
end

-- All was read: what may be of the wrong type is written first.  `from`: queues, each with what leaves its line, whether other
-- jobs stand between, and how many there are if not as many.
local function write_claimed(claim, owner, from)
  in_chunks('SADD', 'leases:' .. owner, claim.ids)
  redis.call('SADD', P .. 'owners', owner)
  in_chunks('HSET', 'jobs', claim.leases)
  for _, of_queue in ipairs(from) do
    local queue, taken, has_gaps, size = unpack(of_queue)
    if has_gaps then
      in_chunks('ZREM', 'ready:' .. queue, taken)
    else
      redis.call('ZREMRANGEBYRANK', P .. 'ready:' .. queue, '0', text(#taken - 1))  -- searches for no member
    end
    count(queue, AVAILABLE, -(size or #taken))
    count(queue, EXECUTING, size or #taken)
  end
end

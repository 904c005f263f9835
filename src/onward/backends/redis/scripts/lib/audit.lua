-- The audit trail.  `audit` holds every entry by its number, 8 bytes; sorted sets, by time and then number, name those of a job
-- (`audit_job:<id>`, empty for no job), about something (`audit_ref:<ref>`), of a person (`audit_who:<who>`), and all (`audited`).

local audit = {EACH_JOB = '*', LOOKED_AT = 1000}

do
  -- Places in an entry.  It comes from a caller as this array; for each job its signatures are a table by the job's id.
  local E_JOB, E_AT, E_WHO, E_ACT, E_DETAIL, E_REF, E_SIGNATURE = 1, 2, 3, 4, 5, 6, 7

  local function audit_keys(entry)
    local keys = {'audited', 'audit_job:' .. entry[E_JOB], 'audit_who:' .. entry[E_WHO]}
    if entry[E_REF] ~= '' then keys[4] = 'audit_ref:' .. entry[E_REF] end
    return keys
  end

  function audit.add(entry)
    local number = struct.pack('>I8', redis.call('INCR', P .. 'audit_number'))
    hash('audit', number, cmsgpack.pack(entry))
    for _, key in ipairs(audit_keys(entry)) do zset(key, number, entry[E_AT]) end
  end

  -- Note the entries of an act, by the ids of the jobs that it changed; nothing is written before `flush`.
  function audit.store(entries, changed)
    for _, entry in ipairs(entries or {}) do
      if entry[E_JOB] == audit.EACH_JOB then
        for _, id in ipairs(changed) do
          audit.add({id, entry[E_AT], entry[E_WHO], entry[E_ACT], entry[E_DETAIL], entry[E_REF], entry[E_SIGNATURE][id] or ''})
        end
      else
        audit.add(entry)
      end
    end
  end

  -- The entry of a number; nil if it is not there, or no script wrote it.
  function audit.read(number)
    local raw = redis.call('HGET', P .. 'audit', number)
    local entry = raw and unpacked(raw)
    if type(entry) ~= 'table' then return nil end
    for _, place in ipairs({E_JOB, E_WHO, E_ACT, E_DETAIL, E_REF, E_SIGNATURE}) do
      if type(entry[place]) ~= 'string' then return nil end
    end
    return type(entry[E_AT]) == 'number' and entry or nil
  end

  function audit.remove(number, key)
    for _, each in ipairs(audit_keys(audit.read(number) or {'', 0, '', '', '', '', ''})) do zset(each, number, false) end
    zset(key, number, false)
    hash('audit', number, false)
  end

  -- Remove the entries of a job.  A store without any is asked once for a script.
  function audit.forget(id)
    if audit.is_empty == nil then audit.is_empty = redis.call('EXISTS', P .. 'audit') == 0 end
    if audit.is_empty then return end
    local key = 'audit_job:' .. id
    for _, number in ipairs(redis.call('ZRANGE', P .. key, 0, -1)) do audit.remove(number, key) end
  end

  function audit.drop_old(before, limit)
    local key = 'audit_job:'
    local old = redis.call('ZRANGEBYSCORE', P .. key, '-inf', string.format('%.0f', before), 'LIMIT', 0, limit)
    for _, number in ipairs(old) do audit.remove(number, key) end
  end

  -- A page, the newest first, of those that are named by a key: numbers and entries, and where it goes on if it looked at as many
  -- as one script may.
  function audit.page(key, at, number, limit, filters)
    local found, looked_at = {}, 0
    local rank = redis.call('ZREVRANK', P .. key, struct.pack('>I8', number))
    local from = rank and rank + 1 or redis.call('ZCOUNT', P .. key, '(' .. at, '+inf')
    while true do
      local numbers = redis.call('ZREVRANGE', P .. key, from, from + 99)
      for _, each in ipairs(numbers) do
        local entry = audit.read(each)
        local is_asked_for = entry and (entry[E_AT] < tonumber(at) or struct.unpack('>I8', each) < number)
        looked_at = looked_at + (is_asked_for and 1 or 0)
        for place, value in pairs(filters) do is_asked_for = is_asked_for and entry[place] == value end
        if is_asked_for then found[#found + 1] = {each, redis.call('HGET', P .. 'audit', each)} end
        if #found == limit then return {found, false} end
        if looked_at == audit.LOOKED_AT then return {found, {redis.call('ZSCORE', P .. key, each), each}} end
      end
      if #numbers < 100 then return {found, false} end
      from = from + 100
    end
  end
end

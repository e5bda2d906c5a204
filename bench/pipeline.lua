-- Sends requests 16 at a time.
init = function(args)
  local requests = {}
  for i = 1, 16 do requests[i] = wrk.format() end
  batch = table.concat(requests)
end
request = function() return batch end

-- Binary trees of many depths are made and dropped while a large one lives, and a table of strings grows.
local function make(depth)
    if depth == 0 then return {} end
    return {make(depth - 1), make(depth - 1)}
end
local function count(tree)
    if tree[1] == nil then return 1 end
    return 1 + count(tree[1]) + count(tree[2])
end
local most = tonumber(arg[1])
local long = make(most)
local strings, sum = {}, 0
for depth = 4, most, 2 do
    local n = 1 << (most - depth + 4)
    local nodes = 0
    for i = 1, n do
        nodes = nodes + count(make(depth))
        strings[#strings + 1] = "tree " .. i * depth
    end
    print(n .. " trees of depth " .. depth .. ": " .. nodes)
end
table.sort(strings)
for i = 1, #strings do sum = (sum * 31 + #strings[i]) % 1000003 end
print("long tree: " .. count(long), #strings, sum)

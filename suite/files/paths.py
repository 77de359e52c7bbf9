"""Shortest paths from some nodes of a random graph, by Dijkstra's algorithm, with an object for each node."""
import heapq
import sys


class Node:
    def __init__(self, name):
        self.name = name
        self.edges = {}


def main(count):
    seed = 1
    nodes = [Node(f"node {i}") for i in range(count)]
    for i, node in enumerate(nodes):
        for k in range(5):
            seed = (seed * 1103515245 + 12345) % 2147483648
            other = nodes[(i + 1) % count if k == 0 else seed % count]
            node.edges[other.name] = (other, seed // 7 % 1000 + 1)
    for start in range(0, count, max(1, count // 3)):
        best = {nodes[start].name: 0}
        queue = [(0, start, nodes[start])]
        serial = count
        while queue:
            cost, _, node = heapq.heappop(queue)
            if cost > best[node.name]:
                continue
            for name, (other, length) in node.edges.items():
                if name not in best or cost + length < best[name]:
                    best[name] = cost + length
                    serial += 1
                    heapq.heappush(queue, (cost + length, serial, other))
        print(start, len(best), max(best.values()), sum(best.values()))


main(int(sys.argv[1]))

// As much of ZSim's interface as the adapter uses, to compile and try it without ZSim.
#ifndef ZSIM_STUB_H
#define ZSIM_STUB_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>

inline void panic(const char *text)
{
    std::fprintf(stderr, "panic: %s\n", text);
    std::abort();
}

enum AccessType { GETS, GETX, PUTS, PUTX };
enum MESIState { I, S, E, M };
typedef uint64_t Address;

struct MemReq {
    enum Flag { NOEXCL = 1 };
    Address lineAddr;
    AccessType type;
    MESIState *state;
    uint64_t cycle;
    uint32_t flags;
    bool is(Flag f) const { return flags & f; }
};

class MemObject
{
  public:
    virtual ~MemObject() {}
    virtual uint64_t access(MemReq &req) = 0;
    virtual const char *getName() = 0;
};

#endif // ZSIM_STUB_H

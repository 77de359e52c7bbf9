// As much of gem5's interface as the adapter uses, to compile and try it without gem5.
#ifndef GEM5_STUB_HH
#define GEM5_STUB_HH

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>

namespace gem5 {

typedef uint64_t Tick;
typedef uint64_t Addr;
const Tick MaxTick = UINT64_MAX;

inline void fatal(const char *text)
{
    std::fprintf(stderr, "fatal: %s\n", text);
    std::exit(1);
}

class Packet
{
  public:
    Packet(Addr a, unsigned n, bool w, bool r) : addr(a), size(n), write(w), needs_response(r) {}
    Addr getAddr() const { return addr; }
    unsigned getSize() const { return size; }
    bool isWrite() const { return write; }
    bool needsResponse() const { return needs_response; }
    bool isResponse() const { return response; }
    void makeResponse() { response = true; }

  private:
    Addr addr;
    unsigned size;
    bool write;
    bool needs_response;
    bool response = false;
};
typedef Packet *PacketPtr;

class ResponsePort
{
  public:
    virtual ~ResponsePort() {}
    virtual bool sendTimingResp(PacketPtr pkt) = 0;
    virtual void sendRetryReq() = 0;
};

class EventFunctionWrapper
{
  public:
    explicit EventFunctionWrapper(std::function<void()> f) : call(f) {}
    std::function<void()> call;
    Tick when = MaxTick;
};

class EventQueue
{
  public:
    Tick now = 0;
    std::multimap<Tick, EventFunctionWrapper *> events;

    // Runs the next event; false if there is none.
    bool step()
    {
        if (events.empty())
            return false;
        EventFunctionWrapper *e = events.begin()->second;
        now = events.begin()->first;
        events.erase(events.begin());
        e->when = MaxTick;
        e->call();
        return true;
    }
};

class AbstractMemory
{
  public:
    explicit AbstractMemory(EventQueue &q) : queue(q) {}

  protected:
    Tick curTick() const { return queue.now; }
    void reschedule(EventFunctionWrapper &event, Tick when)
    {
        for (auto i = queue.events.begin(); i != queue.events.end(); ++i) {
            if (i->second == &event) {
                queue.events.erase(i);
                break;
            }
        }
        event.when = when;
        queue.events.insert({when, &event});
    }

  private:
    EventQueue &queue;
};

} // namespace gem5

#endif // GEM5_STUB_HH

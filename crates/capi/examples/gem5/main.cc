// Tries the adapter: a requester that sends as fast as it is allowed to, and now and then refuses a response.
#include "nagori_mem.hh"

#include <memory>

using namespace gem5;

class Requester : public ResponsePort
{
  public:
    explicit Requester(unsigned n) : total(n) {}

    void send()
    {
        while (sent < total) {
            if (!packet)
                packet.reset(new Packet(Addr(sent) * 4160 % (1 << 26) / 64 * 64, 64, sent % 4 == 3,
                                        sent % 8 != 7));
            // Without a response, the memory deletes the packet as soon as it has taken it.
            const bool answer = packet->needsResponse();
            if (!memory->recvTimingReq(packet.get()))
                return;
            packet.release();
            answered += !answer;
            sent++;
        }
    }

    bool sendTimingResp(PacketPtr pkt) override
    {
        if (++offered % 100 == 0) {
            refused = true;
            return false;
        }
        answered += pkt->isResponse();
        delete pkt;
        return true;
    }

    void sendRetryReq() override
    {
        retries++;
        send();
    }

    NagoriMem *memory = nullptr;
    std::unique_ptr<Packet> packet;
    unsigned total, sent = 0, answered = 0, offered = 0, retries = 0;
    bool refused = false;
};

int main(int argc, char **argv)
{
    EventQueue queue;
    Requester requester(2000);
    NagoriMem memory(queue, requester, argc > 1 ? argv[1] : "ddr4", {});
    requester.memory = &memory;
    requester.send();
    while ((requester.answered < requester.total || !memory.drained()) && queue.step()) {
        if (requester.refused) {
            requester.refused = false;
            memory.recvRespRetry();
        }
    }
    std::printf("answered %u of %u, retries %s, drained %d, %llu ns\n", requester.answered, requester.total,
                requester.retries > 0 ? "yes" : "no", memory.drained(), (unsigned long long)queue.now / 1000);
    std::printf("%s\n", memory.statistics().c_str());
    return requester.answered == requester.total && memory.drained() ? 0 : 1;
}

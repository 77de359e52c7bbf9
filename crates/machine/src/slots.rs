//! The host's access to the devices in the slots of a machine.

use super::Machine;
use nagori_platform::clock::Ps;
use nagori_platform::device::{Device, DeviceCx};
use nagori_platform::devices::ethmac::Ethmac;
use nagori_platform::devices::virtio::{Net, Port, Traffic, VirtioBackend, VirtioMmio};

impl Machine {
    /// The host's access to the backend in a virtio slot, with its port: to connect it after the
    /// machine was built or restored, and to ask it. `None` if the machine's description has no
    /// such slot, or something else in it.
    pub fn virtio<B: VirtioBackend, R>(
        &mut self,
        slot: usize,
        f: impl FnOnce(&mut B, &mut Port<'_>) -> R,
    ) -> Option<R> {
        let now = self.now();
        let bus = &mut self.world.bus;
        let result = bus.with_slot::<VirtioMmio<B>, _>(now, slot, |d, cx| d.with(cx, f));
        self.after_devices(now);
        result
    }

    /// As [`Machine::virtio`], for a device in a slot that is not virtio.
    pub fn in_slot<D: Device, R>(
        &mut self,
        slot: usize,
        f: impl FnOnce(&mut D, &mut DeviceCx<'_>) -> R,
    ) -> Option<R> {
        let now = self.now();
        let result = self.world.bus.with_slot::<D, _>(now, slot, f);
        self.after_devices(now);
        result
    }

    /// What the network interfaces have sent, received and lost since they were made, by slot.
    pub fn networks(&self) -> Vec<(usize, Traffic)> {
        let bus = &self.world.bus;
        let traffic = |slot| {
            let mac = bus.slot::<Ethmac>(slot).map(Ethmac::traffic);
            let net = || bus.slot::<VirtioMmio<Net>>(slot);
            Some((slot, mac.or_else(|| Some(net()?.backend().traffic()))?))
        };
        (0..bus.slots()).filter_map(traffic).collect()
    }

    /// Lets devices in virtio slots look at what has happened outside; for between runs.
    /// Costs nothing if there are no slots.
    pub fn poll_devices(&mut self) {
        self.poll_devices_at(self.now());
    }

    /// As [`Machine::poll_devices`], at a later time, for a machine that waits: a hart that is woken by the input
    /// resumes then. Must not be after the end of the wait that [`Stop::Idle`](super::Stop::Idle) gave.
    pub fn poll_devices_at(&mut self, at: Ps) {
        if self.world.bus.slots() == 0 {
            return;
        }
        self.world.bus.poll(at);
        self.after_devices(at);
    }
}

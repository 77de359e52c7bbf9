//! The console and the clock of a machine, as the host uses them.

use super::Machine;
use nagori_platform::devices::rtc::Rtc;
use nagori_platform::devices::uart::Uart;

impl Machine {
    /// Passes bytes to the console.
    pub fn console_input(&mut self, bytes: &[u8]) {
        let now = self.now();
        self.world
            .bus
            .with::<Uart, _>(now, |u, cx| u.push_input(cx, bytes));
        self.update_lines(now);
    }

    /// Whether what is given to the console waits for a guest that reads; see
    /// [`Uart::set_patient`].
    pub fn set_console_patient(&mut self, patient: bool) {
        let now = self.now();
        self.world
            .bus
            .with::<Uart, _>(now, |u, _| u.set_patient(patient));
    }

    /// Takes back up to `most` bytes that were given to the console and have not reached its FIFO.
    pub fn take_console_input(&mut self, most: usize) -> Vec<u8> {
        let now = self.now();
        self.world
            .bus
            .with::<Uart, _>(now, |u, _| u.take_input(most))
            .unwrap_or_default()
    }

    /// Takes what the console has printed.
    pub fn console_output(&mut self) -> Vec<u8> {
        let now = self.now();
        self.world
            .bus
            .with::<Uart, _>(now, |u, _| u.take_output())
            .unwrap_or_default()
    }

    /// Sets the real-time clock, in seconds since 1970. A kernel that runs has read it before.
    pub fn set_rtc(&mut self, unix_s: u64) {
        let now = self.now();
        self.world
            .bus
            .with::<Rtc, _>(now, |r, cx| r.set(cx, unix_s));
        self.after_devices(now);
    }
}

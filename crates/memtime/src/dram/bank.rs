//! Banks, queued bursts, and the lists that tie them together.

/// No slot, no row, no request.
pub(crate) const NONE: u32 = u32::MAX;

/// State of a bank's row buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bank {
    /// Open row or [`NONE`].
    pub row: u32,
    pub group: u32,
    pub rank: u32,
    /// Written since the activation.
    pub dirty: bool,
    /// Reads and writes since the activation.
    pub columns: u32,
    /// Clock of the activation, or of the last read or write after it.
    pub last: u64,
    /// Adaptive page policy: current time-out, and the row that it closed last.
    pub timeout: u64,
    pub closed_row: u32,
}

/// A queued burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// The next younger one of the same bank and queue, or the next free slot.
    pub next: u32,
    pub bank: u32,
    pub row: u32,
    pub column: u32,
    /// Age.
    pub seq: u64,
    /// Clock from which on the scheduler sees it.
    pub visible: u64,
    /// Mask of the burst's bytes.
    pub mask: u64,
    /// First of the requests that wait for it, or [`NONE`].
    pub waiter: u32,
    /// First of the ids of the writes that are in it, or [`NONE`].
    pub writer: u32,
    pub write: bool,
    /// An activation was issued for it.
    pub activated: bool,
    /// A precharge was issued for it.
    pub precharged: bool,
}

/// Bursts of one bank in one queue, oldest first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    pub head: u32,
    pub tail: u32,
    /// The oldest one for the open row.
    pub hit: u32,
    /// Number of bursts for the open row.
    pub hits: u32,
}

/// Words of a [`BankSet`].
const WORDS: usize = 4;

/// A set of banks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BankSet([u64; WORDS]);

impl BankSet {
    #[inline]
    pub fn insert(&mut self, b: u32) {
        self.0[b as usize / 64] |= 1 << (b % 64);
    }
    #[inline]
    pub fn remove(&mut self, b: u32) {
        self.0[b as usize / 64] &= !(1 << (b % 64));
    }
    #[inline]
    pub fn contains(&self, b: u32) -> bool {
        self.0[b as usize / 64] >> (b % 64) & 1 != 0
    }
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }
    pub fn union(&self, o: &BankSet) -> BankSet {
        let mut both = *self;
        both.0.iter_mut().zip(o.0).for_each(|(a, b)| *a |= b);
        both
    }
    #[inline]
    pub fn for_each(&self, mut f: impl FnMut(usize)) {
        for (w, &bits) in self.0.iter().enumerate() {
            let mut bits = bits;
            while bits != 0 {
                f(w * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }
}

/// All bursts of a channel: slots, and lists by queue (0 reads, 1 writes) and bank.
#[derive(Clone, Debug)]
pub(crate) struct Queues {
    pub slots: Vec<Slot>,
    free: u32,
    pub lists: [Vec<List>; 2],
    /// Banks with a burst in the queue.
    pub active: [BankSet; 2],
    /// Bursts in the lists.
    pub visible: [u32; 2],
    /// By rank, both queues.
    pub by_rank: Vec<u32>,
    /// Number of free slots.
    pub room: [u32; 2],
    next_seq: u64,
}

impl Queues {
    /// `beside`: number of bursts that take no room in either queue.
    pub fn new(room: [u32; 2], beside: u32, banks: usize, ranks: usize) -> Queues {
        let n = room[0] + room[1] + beside;
        let slot = |i| Slot {
            next: if i + 1 < n { i + 1 } else { NONE },
            bank: 0,
            row: 0,
            column: 0,
            seq: 0,
            visible: 0,
            mask: 0,
            waiter: NONE,
            writer: NONE,
            write: false,
            activated: false,
            precharged: false,
        };
        let list = List {
            head: NONE,
            tail: NONE,
            hit: NONE,
            hits: 0,
        };
        Queues {
            slots: (0..n).map(slot).collect(),
            free: 0,
            lists: [vec![list; banks], vec![list; banks]],
            active: Default::default(),
            visible: [0; 2],
            by_rank: vec![0; ranks],
            room,
            next_seq: 0,
        }
    }

    /// Age of the oldest burst in the lists of a queue.
    pub fn oldest(&self, q: usize) -> Option<u64> {
        let lists = self.lists[q].iter().filter(|l| l.head != NONE);
        lists.map(|l| self.slots[l.head as usize].seq).min()
    }

    /// Age of the next burst.
    #[inline]
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Sets the age of the bursts that follow, except those whose age is set afterwards.
    pub fn set_next_seq(&mut self, seq: u64) {
        self.next_seq = seq;
    }

    /// Takes a free slot with a place in its queue; the caller has checked that there is one.
    pub fn allocate(&mut self, s: Slot) -> u32 {
        self.room[usize::from(s.write)] -= 1;
        self.allocate_beside(s)
    }

    /// Takes a free slot without a place in a queue; the caller has checked that there is one.
    pub fn allocate_beside(&mut self, mut s: Slot) -> u32 {
        let i = self.free;
        self.free = self.slots[i as usize].next;
        s.seq = self.next_seq;
        s.next = NONE;
        self.next_seq += 1;
        self.slots[i as usize] = s;
        i
    }

    /// Puts a slot at the end of its list.
    #[inline]
    pub fn push(&mut self, i: u32, bank: &Bank) {
        let s = self.slots[i as usize];
        let q = usize::from(s.write);
        let l = &mut self.lists[q][s.bank as usize];
        if l.head == NONE {
            l.head = i;
            self.active[q].insert(s.bank);
        } else {
            self.slots[l.tail as usize].next = i;
        }
        l.tail = i;
        if bank.row == s.row {
            l.hits += 1;
            if l.hit == NONE {
                l.hit = i;
            }
        }
        self.visible[q] += 1;
        self.by_rank[bank.rank as usize] += 1;
    }

    /// Removes a slot from its list and frees it; `row` is the open row of the list's bank.
    #[inline]
    pub fn remove(&mut self, i: u32, rank: u32) {
        let s = self.slots[i as usize];
        let q = usize::from(s.write);
        let l = &mut self.lists[q][s.bank as usize];
        if l.head == i {
            l.head = s.next;
            if s.next == NONE {
                l.tail = NONE;
                self.active[q].remove(s.bank);
            }
        } else {
            let mut p = l.head;
            while self.slots[p as usize].next != i {
                p = self.slots[p as usize].next;
            }
            self.slots[p as usize].next = s.next;
            if s.next == NONE {
                l.tail = p;
            }
        }
        // Only hits leave, and always the oldest one.
        l.hits -= 1;
        l.hit = NONE;
        if l.hits > 0 {
            let mut n = s.next;
            while self.slots[n as usize].row != s.row {
                n = self.slots[n as usize].next;
            }
            l.hit = n;
        }
        self.visible[q] -= 1;
        self.by_rank[rank as usize] -= 1;
        self.room[q] += 1;
        self.release(i);
    }

    /// Frees a slot that is in no list and has no place in a queue.
    #[inline]
    pub fn release(&mut self, i: u32) {
        self.slots[i as usize].next = self.free;
        self.free = i;
    }

    /// Counts the hits of a row that has just been opened.
    pub fn opened(&mut self, bank: u32, row: u32) {
        for lists in &mut self.lists {
            let l = &mut lists[bank as usize];
            (l.hit, l.hits) = (NONE, 0);
            let mut i = l.head;
            while i != NONE {
                let s = &self.slots[i as usize];
                if s.row == row {
                    l.hits += 1;
                    if l.hit == NONE {
                        l.hit = i;
                    }
                }
                i = s.next;
            }
        }
    }

    /// Forgets the hits of a row that has just been closed.
    pub fn closed(&mut self, bank: u32) {
        for lists in &mut self.lists {
            let l = &mut lists[bank as usize];
            (l.hit, l.hits) = (NONE, 0);
        }
    }

    /// The oldest burst with these coordinates in a queue's lists.
    #[inline]
    pub fn find(&self, q: usize, bank: u32, row: u32, column: u32) -> Option<u32> {
        let mut i = self.lists[q][bank as usize].head;
        while i != NONE {
            let s = &self.slots[i as usize];
            if s.row == row && s.column == column {
                return Some(i);
            }
            i = s.next;
        }
        None
    }
}

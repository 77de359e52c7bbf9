//! What `nagori bench off2f` measures: programs, how they are stored, and what was done before they start.

use std::fmt;

/// `--memory-model` for the board's own controller.
pub const BOARD: &str = "board";

/// What the guest has done before a program starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Dropped its caches.
    Cold,
    /// Booted after a soft reset.
    Reset,
}

impl State {
    /// Both.
    pub const ALL: [State; 2] = [State::Cold, State::Reset];

    /// The name in rows.
    pub fn name(self) -> &'static str {
        match self {
            State::Cold => "cold",
            State::Reset => "reset",
        }
    }

    /// The state of a name.
    pub fn named(name: &str) -> Option<State> {
        State::ALL.into_iter().find(|s| s.name() == name)
    }
}

/// How a program is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// An ELF file on a disk.
    Disk,
    /// An ELF file on NVMM.
    Dax,
    /// PROG.off2 on a disk, text on NVMM.
    Off2f,
}

impl Format {
    /// All of them, in the order of tables.
    pub const ALL: [Format; 3] = [Format::Disk, Format::Dax, Format::Off2f];

    /// The name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Format::Disk => "elf-disk",
            Format::Dax => "elf-dax",
            Format::Off2f => "off2f",
        }
    }

    /// Where the guest finds programs and libraries, and the end of a program's name.
    pub fn places(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Format::Disk => ("/mnt/disk", "/mnt/disk/lib", ""),
            Format::Dax => ("/mnt/dax", "/mnt/dax/lib", ""),
            Format::Off2f => ("/mnt/disk", "/opt/off2f", ".off2"),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A program of Debian's with a short job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Real {
    pub name: &'static str,
    /// Its file in the guest.
    pub file: &'static str,
    /// Arguments, as words of a shell; `{}` stands for the length of the job.
    pub job: &'static str,
    /// The length of the job for one pass.
    pub length: u32,
}

impl Real {
    /// The arguments for a job that is `passes` times as long.
    pub fn job(&self, passes: u32) -> String {
        self.job.replace("{}", &(self.length * passes).to_string())
    }
}

/// All of them.
pub const REAL: [Real; 3] = [
    Real {
        name: "busybox",
        file: "/bin/busybox",
        job: "sh -c 'i=0; while [ $i -lt {} ]; do i=$((i+1)); done'",
        length: 100,
    },
    Real {
        name: "sqlite3",
        file: "/mnt/root/usr/bin/sqlite3",
        job: "-init /dev/null :memory: 'create table t(a, b); with recursive c(x) as (select 1 union all \
              select x+1 from c where x<{}) \
              insert into t select x, x*x from c; select sum(b) from t where a%3=0'",
        length: 200,
    },
    Real {
        name: "python3",
        file: "/mnt/root/usr/bin/python3",
        job: "-S -c 'print(sum(i * i for i in range({})))'",
        length: 500,
    },
];

/// A program as it is measured.
pub struct Measured {
    /// Its name in rows.
    pub name: String,
    /// For Debian's own.
    pub real: Option<Real>,
    /// How often it goes through its text, or how many times as long its job is.
    pub passes: u32,
}

impl Measured {
    /// What the guest calls it: no two programs have the same label.
    pub fn label(&self) -> String {
        match self.passes {
            1 => self.name.clone(),
            n => format!("{}@{n}", self.name),
        }
    }

    /// The name of its file. A program of Debian's has one file for all lengths of its job, which it gets as an
    /// argument.
    pub fn file(&self) -> String {
        match self.real {
            Some(_) => self.name.clone(),
            None => self.label(),
        }
    }
}

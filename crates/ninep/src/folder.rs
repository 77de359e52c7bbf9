//! The folder on the host, reached through descriptors only.
//!
//! **Why no path leads out.** A name from the guest is one component: no `/`, no NUL, neither `.`
//! nor `..`, at most 255 bytes ([`check_name`]). It is looked up in the descriptor of a directory,
//! and symbolic links are not followed (`O_NOFOLLOW`): the result is the link itself, and a link is
//! never a directory to descend from. So every step goes to a child of a directory that was reached
//! in this way from the root; concurrent renames and links decide only which child. `..` is not
//! passed to the host: the path from the root is walked again without its last name
//! ([`Folder::parent`]). A directory that others have moved out of the folder is no longer used
//! ([`Folder::within`]).

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::path::DecInt;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a folder cannot be shared.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder does not exist, or is not accessible.
    #[error("the folder {path} cannot be opened: {why}")]
    Open {
        /// As given.
        path: PathBuf,
        /// What the system said.
        why: Errno,
    },
    /// Something else of this name.
    #[error("{0} is not a folder; only folders can be shared")]
    NotAFolder(PathBuf),
    /// `/proc` is needed to reopen what was found.
    #[error("/proc is not mounted, which the share needs")]
    NoProc,
}

/// The kind of a node. Only files, directories and links are of use to the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, which the guest follows itself, in its own tree.
    Link,
    /// A device, pipe or socket: shown, never opened.
    Special,
}

impl Kind {
    /// From the mode of a file.
    pub fn of(stat: &Stat) -> Kind {
        Kind::from(FileType::from_raw_mode(stat.st_mode))
    }
}

impl From<FileType> for Kind {
    fn from(kind: FileType) -> Kind {
        match kind {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Directory,
            FileType::Symlink => Kind::Link,
            _ => Kind::Special,
        }
    }
}

/// Identity of a file of the host, unique among all that exist at the time.
pub type Identity = (u64, u64);

/// Device and inode.
pub fn identity(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}

/// Something in the folder, held by a descriptor that only names it (`O_PATH`).
#[derive(Debug)]
pub struct Node {
    fd: OwnedFd,
    /// Its kind; this never changes for an inode.
    pub kind: Kind,
    /// Its identity.
    pub identity: Identity,
}

impl Node {
    fn new(fd: OwnedFd) -> Result<(Node, Stat), Errno> {
        let stat = fs::fstat(&fd)?;
        let (kind, identity) = (Kind::of(&stat), identity(&stat));
        Ok((Node { fd, kind, identity }, stat))
    }

    /// The descriptor, for calls that take a directory or nothing but a file.
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Attributes as they are now.
    pub fn stat(&self) -> Result<Stat, Errno> {
        fs::fstat(&self.fd)
    }
}

/// Checks a name from the guest: it must be one component.
pub fn check_name(name: &[u8]) -> Result<&[u8], Errno> {
    match name {
        b"" | b"." | b".." => Err(Errno::INVAL),
        _ if name.len() > 255 => Err(Errno::NAMETOOLONG),
        _ if name.iter().any(|b| matches!(b, b'/' | 0)) => Err(Errno::INVAL),
        _ => Ok(name),
    }
}

/// Looks up one name in a directory, without following links.
pub fn child(dir: &Node, name: &[u8]) -> Result<(Node, Stat), Errno> {
    let name = check_name(name)?;
    if dir.kind != Kind::Directory {
        return Err(Errno::NOTDIR);
    }
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Node::new(fs::openat(&dir.fd, name, flags, Mode::empty())?)
}

/// Attributes of a name in a directory.
pub fn stat_child(dir: &Node, name: &[u8]) -> Result<Stat, Errno> {
    fs::statat(&dir.fd, check_name(name)?, AtFlags::SYMLINK_NOFOLLOW)
}

/// A folder that is shared.
#[derive(Debug)]
pub struct Folder {
    /// The root.
    pub root: Arc<Node>,
    /// Whether the guest may change anything.
    pub writable: bool,
    /// `/proc/self/fd`, through which a node that was found is opened: that very file, whatever its
    /// name refers to by now.
    opened: OwnedFd,
}

impl Folder {
    /// Opens a folder to be shared. A symbolic link in `path` itself is followed.
    pub fn open(path: &Path, writable: bool) -> Result<Folder, FolderError> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let named = |why| FolderError::Open {
            path: path.to_owned(),
            why,
        };
        let fd = fs::open(path, flags, Mode::empty()).map_err(named)?;
        let (root, _) = Node::new(fd).map_err(named)?;
        if root.kind != Kind::Directory {
            return Err(FolderError::NotAFolder(path.to_owned()));
        }
        // Missing permission to read is reported here, not in the guest.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        fs::openat(&root.fd, ".", flags, Mode::empty()).map_err(named)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = fs::open("/proc/self/fd", flags, Mode::empty());
        let opened = opened.map_err(|_| FolderError::NoProc)?;
        match fs::fstatfs(&opened) {
            Ok(s) if s.f_type == fs::PROC_SUPER_MAGIC => {}
            _ => return Err(FolderError::NoProc),
        }
        Ok(Folder {
            root: Arc::new(root),
            writable,
            opened,
        })
    }

    /// The entry of `/proc/self/fd` of a node; following it leads to the node, and nowhere else.
    pub fn entry(&self, node: &Node) -> (&OwnedFd, DecInt) {
        (&self.opened, DecInt::from_fd(&node.fd))
    }

    /// Opens a file or directory for reading or writing. Other kinds are refused.
    pub fn open_node(&self, node: &Node, flags: OFlags) -> Result<OwnedFd, Errno> {
        match node.kind {
            Kind::File | Kind::Directory => {}
            Kind::Link => return Err(Errno::LOOP),
            Kind::Special => return Err(Errno::ACCESS),
        }
        let (at, number) = self.entry(node);
        let flags = (flags - OFlags::NOFOLLOW - OFlags::CREATE - OFlags::EXCL)
            | OFlags::CLOEXEC
            | OFlags::NOCTTY;
        fs::openat(at, number, flags, Mode::empty())
    }

    /// The node of an open file.
    pub fn node_of(&self, file: &OwnedFd) -> Result<Node, Errno> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let fd = fs::openat(&self.opened, DecInt::from_fd(file), flags, Mode::empty())?;
        Node::new(fd).map(|(node, _)| node)
    }

    fn path_of(&self, fd: impl AsFd) -> Result<Vec<u8>, Errno> {
        let path = fs::readlinkat(&self.opened, DecInt::from_fd(fd), Vec::with_capacity(256))?;
        Ok(path.into_bytes())
    }

    /// The names that lead from the root to a node, according to the host; `ESTALE` if it is not,
    /// or no longer, in the folder. The last name of a removed file is not valid, so callers
    /// compare identities.
    pub fn names_to(&self, node: &Node) -> Result<Vec<Vec<u8>>, Errno> {
        let root = self.path_of(&self.root.fd)?;
        let path = self.path_of(&node.fd)?;
        let rest = match path.strip_prefix(root.as_slice()) {
            Some([]) => return Ok(Vec::new()),
            Some([b'/', rest @ ..]) => rest,
            Some(rest) if root == b"/" => rest,
            _ => return Err(Errno::STALE),
        };
        Ok(rest.split(|&b| b == b'/').map(<[u8]>::to_vec).collect())
    }

    /// Checks that a node is still in the folder.
    pub fn within(&self, node: &Node) -> Result<(), Errno> {
        self.names_to(node).map(drop)
    }

    /// Descends from the root by names.
    pub fn descend(&self, names: &[Vec<u8>]) -> Result<Arc<Node>, Errno> {
        let mut at = self.root.clone();
        for name in names {
            at = Arc::new(child(&at, name)?.0);
        }
        Ok(at)
    }

    /// The directory that a node is in; the root's is the root.
    pub fn parent(&self, node: &Node) -> Result<Arc<Node>, Errno> {
        if node.identity == self.root.identity {
            return Ok(self.root.clone());
        }
        let mut names = self.names_to(node)?;
        names.pop();
        self.descend(&names)
    }

    /// A node's directory and its name there, if that name still refers to it.
    pub fn place(&self, node: &Node) -> Result<(Arc<Node>, Vec<u8>), Errno> {
        let mut names = self.names_to(node)?;
        // The root has no name that the guest could change.
        let name = names.pop().ok_or(Errno::BUSY)?;
        let dir = self.descend(&names)?;
        let stat = stat_child(&dir, &name).map_err(|_| Errno::STALE)?;
        if identity(&stat) != node.identity {
            return Err(Errno::STALE);
        }
        Ok((dir, name))
    }
}

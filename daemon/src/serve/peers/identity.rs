//! Who is at the other end of a connection.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use nix::sys::socket::{getsockopt, sockopt};
use profiledb::view::Viewer;

/// Who connected, as the kernel saw it at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// The effective user id.
    pub(super) uid: u32,
    /// May see everything: root, or a member of the service's group.
    pub(super) privileged: bool,
}

impl Identity {
    /// Asks the kernel. What was connected by one process and handed to another stays the
    /// first one's.
    pub(super) fn of(stream: &UnixStream, group: Option<u32>) -> io::Result<Identity> {
        let credentials = getsockopt(stream, sockopt::PeerCredentials)?;
        let groups = sampler::peer_groups(stream.as_fd())?;
        Ok(Identity::new(
            credentials.uid(),
            credentials.gid(),
            &groups,
            group,
        ))
    }

    fn new(uid: u32, gid: u32, groups: &[u32], group: Option<u32>) -> Identity {
        let in_group = group.is_some_and(|group| gid == group || groups.contains(&group));
        Identity {
            uid,
            privileged: uid == 0 || in_group,
        }
    }

    /// Whose eyes a view is for.
    pub(super) fn viewer(self) -> Viewer {
        if self.privileged {
            Viewer::Privileged
        } else {
            Viewer::User(self.uid)
        }
    }

    /// Whether it may ask this of the service itself.
    pub(super) fn may(self, request: protocol::Control) -> bool {
        match request {
            protocol::Control::Status => self.privileged,
            protocol::Control::Flush | protocol::Control::Epoch | protocol::Control::Reload => {
                self.uid == 0
            }
        }
    }
}

/// Whether user ids mean the same to this process as to the handler in the kernel, which knows
/// no user namespaces: the credentials of peers are translated to ours.
pub(super) fn ids_are_the_kernels() -> bool {
    fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| is_identity(&map))
}

fn is_identity(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Root and the group are privileged, by whichever of its groups somebody is in it.
    #[test]
    fn privileges() {
        let group = Some(77);
        assert!(Identity::new(0, 0, &[], None).privileged);
        assert!(Identity::new(1000, 77, &[], group).privileged);
        assert!(Identity::new(1000, 1000, &[5, 77], group).privileged);
        assert!(!Identity::new(1000, 1000, &[5, 7], group).privileged);
        assert!(!Identity::new(77, 1000, &[0], group).privileged);
        // Without a group nobody is in it.
        assert!(!Identity::new(1000, 77, &[77], None).privileged);
    }

    /// The group may look at the service, only root may change something.
    #[test]
    fn controls() {
        use protocol::Control;
        let root = Identity::new(0, 0, &[], None);
        let member = Identity::new(1000, 77, &[], Some(77));
        let other = Identity::new(1000, 1000, &[], Some(77));
        for request in [Control::Flush, Control::Epoch, Control::Reload] {
            assert!(root.may(request) && !member.may(request) && !other.may(request));
        }
        assert!(root.may(Control::Status) && member.may(Control::Status));
        assert!(!other.may(Control::Status));
        assert_eq!(other.viewer(), Viewer::User(1000));
        assert_eq!(member.viewer(), Viewer::Privileged);
    }

    /// A map with any shift in it, or with less than everybody, is none of the kernel's ids.
    #[test]
    fn user_namespaces() {
        assert!(is_identity("         0          0 4294967295\n"));
        assert!(!is_identity("         0     100000      65536\n"));
        assert!(!is_identity("0 0 1\n1 1 4294967294\n"));
        assert!(!is_identity(""));
    }
}

//! Images whose values are not captured.

/// Images whose values are secrets, by the letters at the beginning of their file's name.
const DENIED: [&str; 24] = [
    "doas",
    "gpg",
    "gpgsm",
    "keepassxc",
    "kinit",
    "libcrypto",
    "libgcrypt",
    "libgnutls",
    "libhogweed",
    "libkrb",
    "libmbedcrypto",
    "libnettle",
    "libnss",
    "libsodium",
    "libssl",
    "login",
    "passwd",
    "pinentry",
    "scdaemon",
    "ssh",
    "sshd",
    "su",
    "sudo",
    "unix_chkpwd",
];

/// Whether an image is one, by its path: of the list above, or of those that are configured.
pub(super) fn is_denied(path: &str, more: &[String]) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let end = name
        .find(|c: char| !c.is_ascii_alphabetic() && c != '_')
        .unwrap_or(name.len());
    let word = &name[..end];
    DENIED.contains(&word) || more.iter().any(|denied| denied == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cryptographic libraries and keepers of passwords are denied, their neighbours are not.
    #[test]
    fn deny_list() {
        for path in [
            "/usr/lib/libcrypto.so.3",
            "/usr/sbin/sshd",
            "/usr/bin/ssh-agent",
            "/bin/su",
            "/usr/bin/gpg",
        ] {
            assert!(is_denied(path, &[]), "{path}");
        }
        for path in [
            "/usr/bin/sum",
            "/usr/lib/libcrypt-not.so",
            "/usr/bin/python3",
            "[vdso]",
            "",
        ] {
            assert!(!is_denied(path, &[]), "{path}");
        }
    }

    /// Words of the configuration are compared as those of the list are: with all letters of a
    /// name's beginning.
    #[test]
    fn configured_denials() {
        let more = ["libvault".to_owned()];
        assert!(is_denied("/opt/lib/libvault-2.so.1", &more));
        assert!(is_denied("/usr/bin/sudo", &more));
        assert!(!is_denied("/opt/lib/libvaulted.so", &more));
        assert!(!is_denied("/opt/libvault/bin/tool", &more));
    }
}

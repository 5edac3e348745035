//! Lists in files, on the real file system.

use std::fs;
use std::path::Path;
use std::pin::pin;

use balancer::Discovery;
use balancer::discovery::{File, FileError, Format};
use tokio::time::timeout;

use crate::folder::Folder;
use crate::support::{PATIENCE, is_ready, text, until, until_pushed};

/// Writes the file under another name and moves it into place.
fn replace(folder: &Folder, name: &str, content: &str) {
    let new = folder.file("new");
    fs::write(&new, content).unwrap();
    fs::rename(new, folder.file(name)).unwrap();
}

fn list(ports: &[u16]) -> String {
    let backend = |port: &u16| format!("[[backends]]\naddr = \"127.0.0.1:{port}\"\n");
    ports.iter().map(backend).collect()
}

async fn answer(path: &Path) -> String {
    text(&File::new(path).unwrap().discover().await)
}

#[tokio::test]
async fn both_formats_say_the_same() {
    let folder = Folder::new("formats");
    let toml = r#"
        backends = [
            { addr = "127.0.0.1:1", weight = 3, tier = 2 },
            { addr = "[::1]:2", weight = 0 },
            { addr = "unix:/run/a.sock", max_in_flight = 7, ring_name = "a" },
        ]"#;
    let json = r#"{"backends": [
            {"addr": "127.0.0.1:1", "weight": 3, "tier": 2},
            {"addr": "[::1]:2", "weight": 0},
            {"addr": "unix:/run/a.sock", "max_in_flight": 7, "ring_name": "a"}
        ]}"#;
    replace(&folder, "list.toml", toml);
    replace(&folder, "list.json", json);
    replace(&folder, "list", json);
    let expected = "127.0.0.1:1 3 2, [::1]:2 0 0, unix:/run/a.sock 1 0";
    let files = [
        File::new(folder.file("list.toml")),
        File::new(folder.file("list.json")),
        File::with_format(folder.file("list"), Format::Json),
    ];
    for file in files {
        let found = file.unwrap().discover().await.unwrap();
        let socket = found.last().unwrap();
        assert_eq!(socket.max_in_flight, Some(7));
        assert_eq!(socket.ring_name.as_deref(), Some("a"));
        assert_eq!(text(&Ok(found)), expected);
    }
}

#[tokio::test]
async fn errors_say_where_the_file_is_wrong() {
    let folder = Folder::new("errors");
    let rows = [
        ("a.toml", "", "1:1: missing field `backends`"),
        ("b.toml", "backends = [\n", "1:13: unclosed array"),
        (
            "c.toml",
            "[[backends]]\naddr = \"127.0.0.1:1\"\nweigth = 2\n",
            "3:1: backends[0].weigth: unknown field `weigth`, expected one of \
             `addr`, `weight`, `tier`, `max_in_flight`, `max_fails`, `fail_timeout`, `ring_name`",
        ),
        (
            "d.toml",
            "[[backends]]\naddr = \"127.0.0.1:1\"\n[[backends]]\naddr = \"example.com:80\"\n",
            "4:8: backends[1].addr: \"example.com:80\" is neither an IP address with a port nor \
             `unix:` and a path",
        ),
        (
            "e.toml",
            "backends = [{ addr = \"127.0.0.1:1\", weight = -1 }]",
            "1:46: backends[0].weight: invalid value: integer `-1`, expected u32",
        ),
        (
            "f.toml",
            "backends = []\npool = 1\n",
            "2:1: pool: unknown field `pool`, expected `backends`",
        ),
        (
            "g.json",
            "{\"backends\": [{\"addr\": \"127.0.0.1:1\",\n \"tier\": 256}]}",
            "2:12: backends[0].tier: invalid value: integer `256`, expected u8",
        ),
        (
            "h.json",
            "{\"backends\": [{\"addr\":",
            "1:22: EOF while parsing a value",
        ),
        (
            "i.json",
            "{\"backends\": []} x",
            "1:18: trailing characters",
        ),
        (
            "j.json",
            "{\"backends\": [{}]}",
            "1:16: backends[0]: missing field `addr`",
        ),
    ];
    for (name, content, expected) in rows {
        replace(&folder, name, content);
        let path = folder.file(name);
        let answer = answer(&path).await;
        let expected = format!("error: {}:{expected}", path.display());
        assert!(answer.starts_with(&expected), "{answer}\n{expected}");
    }
    fs::write(folder.file("k.toml"), b"# \xff\n").unwrap();
    let not_utf8 = answer(&folder.file("k.toml")).await;
    assert!(not_utf8.contains("k.toml:1:3: invalid utf-8"), "{not_utf8}");

    let missing = File::new(folder.file("missing.toml")).unwrap();
    let error = missing.discover().await.unwrap_err();
    let cause = error.cause().downcast_ref::<FileError>();
    assert!(
        matches!(cause, Some(FileError::Unreadable { .. })),
        "{error}"
    );
}

#[test]
fn what_cannot_be_read_is_refused_at_once() {
    let folder = Folder::new("refused");
    let error = File::new(folder.file("list.yaml")).unwrap_err();
    assert!(matches!(error, FileError::UnknownFormat { .. }), "{error}");
    let error = File::new(folder.file("no/list.toml")).unwrap_err();
    assert!(matches!(error, FileError::Unwatchable { .. }), "{error}");
}

#[tokio::test]
async fn every_way_to_change_a_file_is_noticed() {
    let folder = Folder::new("changes");
    let path = folder.file("list.toml");
    let file = File::new(&path).unwrap();
    let one = "127.0.0.1:1 1 0";
    let two = "127.0.0.1:1 1 0, 127.0.0.1:2 1 0";
    let away = "list.toml cannot be read";
    assert!(answer(&path).await.contains(away));
    until_changed(&file, || fs::write(&path, list(&[1])).unwrap(), one).await;
    until_changed(&file, || fs::write(&path, list(&[1, 2])).unwrap(), two).await;
    until_changed(&file, || replace(&folder, "list.toml", &list(&[1])), one).await;
    until_changed(
        &file,
        || replace(&folder, "list.toml", "back"),
        "list.toml:1:",
    )
    .await;
    until_changed(&file, || replace(&folder, "list.toml", &list(&[1, 2])), two).await;
    until_changed(&file, || fs::remove_file(&path).unwrap(), away).await;
    until_changed(&file, || fs::write(&path, list(&[1])).unwrap(), one).await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_that_turns_is_noticed() {
    use std::os::unix::fs::symlink;
    // As Kubernetes mounts a ConfigMap: list.toml -> now/list.toml, now -> v1.
    let folder = Folder::new("links");
    for (version, ports) in [("v1", [1].as_slice()), ("v2", &[1, 2])] {
        fs::create_dir(folder.file(version)).unwrap();
        fs::write(folder.file(version).join("list.toml"), list(ports)).unwrap();
    }
    symlink("v1", folder.file("now")).unwrap();
    symlink("now/list.toml", folder.file("list.toml")).unwrap();
    let file = File::new(folder.file("list.toml")).unwrap();
    until_pushed(&file, "127.0.0.1:1 1 0").await;
    let turn = || {
        symlink("v2", folder.file("next")).unwrap();
        fs::rename(folder.file("next"), folder.file("now")).unwrap();
    };
    until_changed(&file, turn, "127.0.0.1:1 1 0, 127.0.0.1:2 1 0").await;
}

#[tokio::test]
async fn a_folder_that_was_replaced_is_watched_again() {
    let folder = Folder::new("replaced");
    let inner = folder.file("inner");
    fs::create_dir(&inner).unwrap();
    fs::write(inner.join("list.toml"), list(&[1])).unwrap();
    let file = File::new(inner.join("list.toml")).unwrap();
    until_pushed(&file, "127.0.0.1:1 1 0").await;
    let remove = || fs::remove_dir_all(&inner).unwrap();
    until_changed(&file, remove, "cannot be read").await;
    fs::create_dir(&inner).unwrap();
    // The service asks again now and then while it has an error; from then on it is told.
    let asked = text(&file.discover().await);
    assert!(asked.contains("cannot be read"), "{asked}");
    let write = || fs::write(inner.join("list.toml"), list(&[2])).unwrap();
    until_changed(&file, write, "127.0.0.1:2 1 0").await;
}

#[tokio::test]
async fn reading_the_file_and_writing_others_wakes_nobody() {
    let folder = Folder::new("quiet");
    replace(&folder, "list.toml", &list(&[1]));
    let file = File::new(folder.file("list.toml")).unwrap();
    until_pushed(&file, "127.0.0.1:1 1 0").await;
    let mut changed = pin!(file.changed());
    assert!(!is_ready(changed.as_mut()).await);
    for n in 0..100 {
        fs::write(folder.file("other"), n.to_string()).unwrap();
        assert_eq!(text(&file.discover().await), "127.0.0.1:1 1 0");
    }
    assert!(!is_ready(changed.as_mut()).await);
    replace(&folder, "list.toml", &list(&[2]));
    timeout(PATIENCE, changed).await.unwrap();
}

/// Changes the file, is told of it, and follows it until the answer is as expected.
async fn until_changed(file: &File, change: impl FnOnce(), expected: &str) {
    let mut told = pin!(file.changed());
    assert!(!is_ready(told.as_mut()).await);
    change();
    timeout(PATIENCE, told).await.unwrap();
    until(file, |answer| {
        answer == expected || answer.starts_with("error") && answer.contains(expected)
    })
    .await;
}

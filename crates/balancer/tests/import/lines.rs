//! Single lines: what they become, and why some are refused.

use crate::import;

/// What an upstream block of these lines becomes.
fn block(lines: &str) -> String {
    import(&format!("upstream u {{ {lines} }}"))
}

#[test]
fn lines_become_keys() {
    for (lines, expected) in [
        ("server 10.0.0.1;", "addr = \"10.0.0.1:80\"\n\n"),
        ("server [::1];", "addr = \"[::1]:80\"\n"),
        ("server [::1]:81;", "addr = \"[::1]:81\"\n"),
        ("server UNIX:/run/a:81;", "addr = \"unix:/run/a:81\"\n\n"),
        (
            "hash $a consistent; server 10.0.0.1:80;",
            "addr = \"10.0.0.1:80\"\n\n",
        ),
        (
            "hash $a consistent; server 10.0.0.1;",
            "\"10.0.0.1:80\"\nring_name = \"10.0.0.1\"\n",
        ),
        (
            "hash $a consistent; server [::1];",
            "\"[::1]:80\"\nring_name = \"[::1]\"\n",
        ),
        (
            "hash $a consistent; server a.b;",
            "port = 80\nring_name = \"a.b\"\n",
        ),
        (
            "hash $a consistent; server 'unix:/a b';",
            "addr = \"unix:/a b\"\n\n",
        ),
        (r#"server 'unix:/a"\\b';"#, r#"addr = "unix:/a\"\\b""#),
        ("server a.b:81;", "host = \"a.b\"\nport = 81\n"),
        ("server 1.2.3;", "host = \"1.2.3\"\n"),
        (
            "server 10.0.0.1 weight=4294967295;",
            "weight = 4294967295\n",
        ),
        (
            "server 10.0.0.1 weight=1 max_conns=0;",
            "addr = \"10.0.0.1:80\"\n\n[",
        ),
        ("server 10.0.0.1 weight=2 weight=3;", "weight = 3\n"),
        (
            "server 10.0.0.1; server 10.0.0.2 backup;",
            "\"10.0.0.2:80\"\ntier = 1\n",
        ),
        (
            "server 10.0.0.1 down;",
            "[admin]\n\"10.0.0.1:80\" = \"disabled\"\n",
        ),
        (
            "server 10.0.0.1 drain;",
            "[admin]\n\"10.0.0.1:80\" = \"drain\"\n",
        ),
        (
            "server 10.0.0.1 fail_timeout=90;",
            "fail_timeout = \"90s\"\n",
        ),
        (
            "server 10.0.0.1 fail_timeout=1d2h3m4;",
            "fail_timeout = \"93784s\"\n",
        ),
        ("server 10.0.0.1 fail_timeout=0;", "fail_timeout = \"0s\"\n"),
        (
            "server 10.0.0.1 slow_start=1m;",
            "[slow_start]\nwindow = \"60s\"\nstart_percent = 1\n",
        ),
        (
            "server a.b service=_x._udp resolve;",
            "service = \"_x._udp.a.b\"\n",
        ),
        (
            "hash a; server 10.0.0.1;",
            "it holds no variable: all requests go to one server\n",
        ),
        (
            "hash $a$b; server 10.0.0.1;",
            "# key to pass to `select`: $a$b, with its variables",
        ),
        (
            "hash ${a}; server 10.0.0.1;",
            "# key to pass to `select`: the value of ${a}\n",
        ),
        (
            "least_conn; ip_hash; server 10.0.0.1;",
            "algorithm = \"ip_hash\"\n",
        ),
        (
            "least_conn; ip_hash; server 10.0.0.1;",
            "another method, which counts\n",
        ),
        (
            "server 10.0.0.1; server 10.0.0.2 backup; ip_hash;",
            "tier = 1\n",
        ),
        (
            "random two least_conn; server 10.0.0.1;",
            "algorithm = \"random_two\"\n",
        ),
        (
            "least_time header; server 10.0.0.1;",
            "algorithm = \"least_time\"\n",
        ),
        ("ntlm; server 10.0.0.1;", "# line 1: `ntlm`: "),
        (
            "server 10.0.0.1 resolve;",
            "`resolve` has nothing to resolve\n",
        ),
        (
            "resolver 10.0.0.1 ipv4=off valid=0; server a.b resolve;",
            "servers = [\"10.0.0.1:53\"]\nfamily = \"v6\"\nmin_ttl = \"1s\"\nmax_ttl = \"1s\"\n",
        ),
    ] {
        let printed = block(lines);
        assert!(printed.contains(expected), "{lines}\n{printed}");
    }
}

#[test]
fn what_fails_at_no_server_is_not_said() {
    let printed = block("server 10.0.0.1 max_fails=0;");
    assert!(!printed.contains("health"), "{printed}");
    assert!(printed.contains("max_fails = 0"), "{printed}");
}

/// Columns are those of `upstream u { ...`, where the first line begins at 14.
#[test]
fn refusals_say_where_and_why() {
    for (lines, expected) in [
        ("server;", "1:14: `server` has no address"),
        ("server '';", "1:21: \"\": no host"),
        (
            "server ::1:80;",
            "1:21: \"::1:80\": an IPv6 address stands in brackets",
        ),
        ("server [::1;", "1:21: \"[::1\": no `]`"),
        (
            "server [::1]x;",
            "1:21: \"[::1]x\": unexpected \"x\" after the host",
        ),
        ("server [a]:1;", "1:21: \"[a]:1\": not an IPv6 address"),
        ("server unix:;", "1:21: \"unix:\": no path"),
        (
            "server a:65536;",
            "1:21: \"a:65536\": \":65536\" is no port, 1 to 65535",
        ),
        (
            "server a:+80;",
            "1:21: \"a:+80\": \":+80\" is no port, 1 to 65535",
        ),
        (
            "server http://a;",
            "1:21: \"http://a\": \"://a\" is no port, 1 to 65535",
        ),
        ("server a/b;", "1:21: \"a/b\": not a host"),
        ("server $backend;", "1:21: \"$backend\": not a host"),
        (
            "server 10.0.0.1 weight=+2;",
            "`weight=+2`: the limits are 1 to 4294967295",
        ),
        ("server 10.0.0.1 weight;", "1:30: `weight`: not known here"),
        (
            "server 10.0.0.1 backup=1;",
            "1:30: `backup=1`: not known here",
        ),
        (
            "server 10.0.0.1 fail_timeout=500ms;",
            "1:30: `fail_timeout=500ms`: not a time",
        ),
        (
            "server 10.0.0.1 fail_timeout=1m1h;",
            "not a time in whole seconds",
        ),
        (
            "server 10.0.0.1 fail_timeout=99999999999s;",
            "not a time in whole seconds",
        ),
        (
            "server 10.0.0.1 fail_timeout=;",
            "not a time in whole seconds",
        ),
        (
            "server 10.0.0.1 service=a resolve;",
            "`service` needs a name for an address",
        ),
        (
            "server a:80 service=a resolve;",
            "`service` does not go with a port",
        ),
        (
            "server a service=a resolve backup;",
            "weight and backup are what the records say",
        ),
        (
            "hash $a consistent; server a service=a resolve;",
            "on the ring is not known",
        ),
        (
            "hash; server 10.0.0.1;",
            "1:14: `hash`: nginx knows no such parameters here",
        ),
        (
            "random three; server 10.0.0.1;",
            "1:14: `random`: nginx knows no such",
        ),
        (
            "least_time; server 10.0.0.1;",
            "1:14: `least_time`: nginx knows no such",
        ),
        ("fair no_rr; server 10.0.0.1;", "only the default mode"),
        (
            "ip_hash; server 10.0.0.1 slow_start=1s;",
            "nginx has no `slow_start` with this method",
        ),
        (
            "server 10.0.0.1; server 10.0.0.1:80;",
            "10.0.0.1:80 is in line 1 already",
        ),
        (
            "server a drain; server 10.0.0.1;",
            "import it with `--resolve`",
        ),
        (
            "server 10.0.0.1; include more;",
            "1:31: the file to include could not be read",
        ),
        (
            "server 10.0.0.1; least_con;",
            "1:31: `least_con` is not known here",
        ),
        ("", "1:1: no servers but backups, or none at all"),
    ] {
        let printed = block(lines);
        assert!(printed.contains(expected), "{lines}\n{printed}");
        assert!(!printed.contains("algorithm = "), "{lines}\n{printed}");
    }
}

#[test]
fn upstreams_are_found_where_nginx_has_them() {
    let printed = import(
        "upstream a { server 10.0.0.1; }
         http { upstream b { server 10.0.0.1; } server { location / { proxy_pass http://b; } } }
         stream { upstream c { server 10.0.0.1:1; } }",
    );
    let names: Vec<_> = printed
        .lines()
        .filter(|line| line.starts_with("# upstream"))
        .collect();
    assert_eq!(
        names,
        ["# upstream a", "# upstream b", "# upstream c of stream"]
    );
}

/// Found by fuzzing: a line break in a name began a line of TOML, and a control made it unreadable.
#[test]
fn what_a_comment_cannot_hold_is_escaped_in_it() {
    let text = import("upstream 'a\norder = 1\u{7f}' { hash 'b\r\n$c'; server 10.0.0.1; }");
    let comments: Vec<_> = text.lines().take(2).collect();
    assert_eq!(
        comments,
        [
            r"# upstream a\norder = 1\u{7f}",
            r"# key to pass to `select`: b\r\n$c, with its variables filled in",
        ]
    );
    assert_eq!(
        text.lines().nth(2),
        Some(r#"name = "a\u000Aorder = 1\u007F""#)
    );
}

/// Found by fuzzing: it was written as a pool without backends, which is none.
#[test]
fn where_nobody_is_left_there_is_no_pool() {
    let refused = block("server a.b down; server c.d down;");
    let expected = "all its servers are names that are down: there is nobody to be listed\n";
    assert_eq!(refused, format!("1:1: {expected}"));
}

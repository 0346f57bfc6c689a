//! The frame of a page of HTML for reports: its style, and nothing that is loaded from elsewhere.

use super::escaped;

const STYLE: &str = "\
:root{color-scheme:light}
body{font:16px/1.55 Georgia,'Times New Roman',serif;color:#1c1c1c;background:#fdfdfb;max-width:60rem;margin:0 auto;padding:1.5rem 1.2rem 5rem}
h1{font-size:1.75rem;line-height:1.2;margin:.6rem 0 .2rem}
h2{font-size:1.3rem;margin:3rem 0 .3rem;padding-top:1rem;border-top:1px solid #ddd}
h3{font-size:1rem;margin:1.4rem 0 .4rem}
nav{font:14px/1.8 system-ui,sans-serif;border-bottom:1px solid #ddd;padding-bottom:.5rem}
nav a{margin-right:1.1rem;color:#00508a;text-decoration:none}
nav a:hover{text-decoration:underline}
.by{color:#555;margin:0 0 1rem}
.id{color:#777;font-weight:normal;margin-right:.6rem}
figure{margin:1rem 0;overflow-x:auto}
svg{max-width:100%;height:auto}
table{border-collapse:collapse;font:14px/1.4 system-ui,sans-serif;margin:.4rem 0 1rem;display:block;overflow-x:auto}
th,td{padding:.25rem .7rem;text-align:left;border-bottom:1px solid #e4e4e0;vertical-align:top}
th{font-weight:600;border-bottom:2px solid #999}
td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.yes{color:#00643c}.no{color:#a63c00}
.wrong{color:#fff;background:#a60000;padding:0 .3rem}
dl{font:14px/1.5 system-ui,sans-serif;display:grid;grid-template-columns:7.5rem 1fr;gap:.15rem .8rem;margin:.6rem 0}
dt{color:#666}dd{margin:0}
details{font:14px/1.5 system-ui,sans-serif;color:#444}
code{font-size:.9em}
";

/// A page with that body.
pub(crate) fn page_of(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escaped(title)
    )
}

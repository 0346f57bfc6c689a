//! The page as one text, without any other resource: for the server, and for a file with a whole recording in it.
//!
//! Invariant: nothing that comes from a volume is markup. Numbers and names are JSON in a data block, in which `<`, `>` and `&` are
//! escaped, and the script puts text only into text nodes. The content security policy allows the script and the style of the
//! page, by a nonce, and nothing else.

const HTML: &str = include_str!("page.html");
const CSS: &str = include_str!("page.css");
const JS: &str = include_str!("page.js");

/// The content security policy; a page of a server may ask that server.
#[must_use]
pub fn policy(nonce: &str, is_served: bool) -> String {
    let connect = if is_served { "'self'" } else { "'none'" };
    format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src {connect}; \
         img-src data:; base-uri 'none'; form-action 'none'"
    )
}

/// The page; with frames it is a replay of them.
#[must_use]
pub fn page(nonce: &str, frames: Option<&[String]>) -> String {
    let data = match frames {
        Some(frames) => format!("[{}]", frames.join(",\n")),
        None => "null".to_owned(),
    };
    HTML.replace("{policy}", &policy(nonce, frames.is_none()))
        .replace("{nonce}", nonce)
        .replace("{css}", CSS)
        .replace("{js}", JS)
        .replace("{data}", &inert(&data))
}

/// JSON that means the same and cannot end the data block it stands in.
fn inert(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

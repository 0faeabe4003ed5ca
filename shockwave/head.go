package shockwave

import (
	"strconv"

	"titan.test/shockwave/parse"
)

// headBound is the room that a head takes at most besides what the handler set and
// the Server's name: status line, Date, Connection and framing.
const headBound = 256

// isOrdinary reports whether nothing but Content-Type and Content-Length depends on the
// exchange: 200, with a body, on a connection that goes on.
func (c *Ctx) isOrdinary() bool {
	return c.status == 200 && c.keep && !c.conn.server.closing.Load() && c.body.done && c.length == unset &&
		!c.bodiless && !c.upgrade && !c.noDate && !c.noServer && !c.head.IsHTTP10() && c.head.MethodID() != parse.MethodConnect
}

// hasRoom reports whether a head, the handler's lines and n more bytes fit into out.
func (c *Ctx) hasRoom(n int) bool {
	return headBound+len(c.conn.server.Name)+len(c.lines)+n <= cap(c.out)-len(c.out)
}

// appendOrdinary puts an ordinary response into out, which has room for it. Up to
// Content-Length it is what it was for the last one of this second and type;
// again reports whether the type is that of the last one.
func (c *Ctx) appendOrdinary(contentType string, again bool, body []byte) {
	if stamp := c.conn.server.clock.stamp.Load(); c.startOf != stamp || !again {
		c.startOf, c.startType = stamp, append(c.startType[:0], contentType...)
		c.start = append(c.start[:0], stamp.ok...)
		if contentType != "" {
			c.start = appendLine(c.start, "Content-Type", contentType)
		}
		c.start = append(c.start, "Content-Length: "...)
	}
	c.sent, c.complete, c.coding = true, true, byLength
	out := append(c.out, c.start...)
	out = appendDecimal(out, len(body))
	if len(c.lines) > 0 {
		out = append(out, "\r\n"...)
		out = append(out, c.lines...)
		out = append(out, "\r\n"...)
	} else {
		out = append(out, "\r\n\r\n"...)
	}
	c.out = append(out, body...)
}

// appendDecimal is strconv.AppendInt without what it needs for other bases.
func appendDecimal(b []byte, n int) []byte {
	var digits [20]byte
	i := len(digits)
	for n >= 10 {
		i--
		digits[i] = byte('0' + n%10)
		n /= 10
	}
	i--
	digits[i] = byte('0' + n)
	return append(b, digits[i:]...)
}

// appendHead puts the response's head into out. length is the body's, or unset if it is unknown; a Content-Length that
// the handler set stands above it.
func (c *Ctx) appendHead(contentType string, length int64) {
	stamp := c.conn.server.clock.stamp.Load()
	if c.length != unset {
		length = c.length
	}
	c.sent = true
	c.choose(length)
	need := headBound + len(stamp.both) + len(contentType) + len(c.kind) + len(c.lines)
	if cap(c.out)-len(c.out) < need {
		c.flushNow()
	}
	out := c.out
	if c.status == 200 && !c.noDate && !c.noServer {
		out = append(out, stamp.ok...)
	} else {
		out = c.appendStart(out, stamp)
	}
	if contentType != "" {
		out = append(out, "Content-Type: "...)
		out = append(out, contentType...)
		out = append(out, "\r\n"...)
	} else if len(c.kind) > 0 {
		out = append(out, "Content-Type: "...)
		out = append(out, c.kind...)
		out = append(out, "\r\n"...)
	}
	out = c.appendFraming(out, length)
	out = append(out, c.lines...)
	c.out = append(out, "\r\n"...)
}

// choose decides how the client sees the end of the body, and whether the
// connection can go on behind it (RFC 9112 section 6.3).
func (c *Ctx) choose(length int64) {
	switch {
	case c.bodiless || hasNoContent(c.status):
		c.coding = noBody
	case length != unset:
		c.coding = byLength
	case c.head.IsHTTP10():
		c.coding, c.keep = byClose, false
	default:
		c.coding = byChunks
	}
	if c.conn.server.closing.Load() || !c.body.done && !c.mayDrain() {
		c.keep = false
	}
}

// appendStart appends the status line, Server and Date.
func (c *Ctx) appendStart(out []byte, stamp *stamp) []byte {
	out = append(out, statusLine(c.status)...)
	switch {
	case !c.noDate && !c.noServer:
		return append(out, stamp.both...)
	case !c.noDate:
		return append(out, stamp.date...)
	case !c.noServer:
		return append(out, stamp.both[:len(stamp.both)-len(stamp.date)]...)
	}
	return out
}

// appendFraming appends what says how long the body is and what becomes of the
// connection.
func (c *Ctx) appendFraming(out []byte, length int64) []byte {
	if c.status == 205 {
		length = 0
	}
	tunnel := c.head.MethodID() == parse.MethodConnect && c.status < 300
	switch {
	case c.status == 204 || tunnel || c.status == 304 && c.length == unset:
	case length != unset:
		out = append(out, "Content-Length: "...)
		out = strconv.AppendInt(out, length, 10)
		out = append(out, "\r\n"...)
	case !c.head.IsHTTP10():
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
	}
	return append(out, c.connection()...)
}

// connection gives the Connection line, if there must be one.
func (c *Ctx) connection() string {
	switch {
	case !c.keep && c.upgrade:
		return "Connection: close, upgrade\r\n"
	case !c.keep:
		return "Connection: close\r\n"
	case c.head.IsHTTP10() && c.upgrade:
		return "Connection: keep-alive, upgrade\r\n"
	case c.head.IsHTTP10():
		return "Connection: keep-alive\r\n"
	case c.upgrade:
		return "Connection: upgrade\r\n"
	}
	return ""
}

// hasNoContent reports whether responses with this status have no body (RFC 9110 section 6.4.1).
func hasNoContent(status int) bool { return status == 204 || status == 205 || status == 304 }

// isBare reports whether the response's head may name the length of a body that does not
// follow.
func (c *Ctx) isBare() bool { return c.bodiless || c.status == 304 }

// statusLine gives the first line of a response, with its CRLF.
func statusLine(status int) string {
	if line := statusLines[status-100]; line != "" {
		return line
	}
	return "HTTP/1.1 " + strconv.Itoa(status) + " \r\n"
}

var statusLines = func() (lines [500]string) {
	for status, text := range statusTexts {
		lines[status-100] = "HTTP/1.1 " + strconv.Itoa(status) + " " + text + "\r\n"
	}
	return lines
}()

// statusTexts are the reason phrases of RFC 9110 section 15 and of the registry.
var statusTexts = map[int]string{
	100: "Continue",
	101: "Switching Protocols",
	102: "Processing",
	103: "Early Hints",
	200: "OK",
	201: "Created",
	202: "Accepted",
	203: "Non-Authoritative Information",
	204: "No Content",
	205: "Reset Content",
	206: "Partial Content",
	207: "Multi-Status",
	208: "Already Reported",
	226: "IM Used",
	300: "Multiple Choices",
	301: "Moved Permanently",
	302: "Found",
	303: "See Other",
	304: "Not Modified",
	305: "Use Proxy",
	307: "Temporary Redirect",
	308: "Permanent Redirect",
	400: "Bad Request",
	401: "Unauthorized",
	402: "Payment Required",
	403: "Forbidden",
	404: "Not Found",
	405: "Method Not Allowed",
	406: "Not Acceptable",
	407: "Proxy Authentication Required",
	408: "Request Timeout",
	409: "Conflict",
	410: "Gone",
	411: "Length Required",
	412: "Precondition Failed",
	413: "Content Too Large",
	414: "URI Too Long",
	415: "Unsupported Media Type",
	416: "Range Not Satisfiable",
	417: "Expectation Failed",
	418: "I'm a teapot",
	421: "Misdirected Request",
	422: "Unprocessable Content",
	423: "Locked",
	424: "Failed Dependency",
	425: "Too Early",
	426: "Upgrade Required",
	428: "Precondition Required",
	429: "Too Many Requests",
	431: "Request Header Fields Too Large",
	451: "Unavailable For Legal Reasons",
	500: "Internal Server Error",
	501: "Not Implemented",
	502: "Bad Gateway",
	503: "Service Unavailable",
	504: "Gateway Timeout",
	505: "HTTP Version Not Supported",
	506: "Variant Also Negotiates",
	507: "Insufficient Storage",
	508: "Loop Detected",
	510: "Not Extended",
	511: "Network Authentication Required",
}

package compare

import (
	"slices"
	"strings"
)

// A row is one behaviour: a request, what the handler does, and what each engine answers.
type row struct {
	name    string
	request string
	// handler is echo when it is nil.
	handler handler
	// show names the fields of the response that the row is about.
	show []string
	// ends says that the client closes its side behind the request, so that nobody waits for more.
	ends bool
	// responses is how many are read; 1 when it is 0.
	responses int
	// all is what each of them answers, where they agree; otherwise shockwave, nethttp and fasthttp are.
	all, shockwave, nethttp, fasthttp string
	// says is the body, but for the line end, with which Shockwave refuses.
	says string
	// why says why Shockwave answers as it does where they differ.
	why string
}

// dies is what an engine does whose process ends: it is asked in a process of its own.
const dies = "its process ends"

func (r row) handle(x exchange) {
	if r.handler == nil {
		echo(x)
		return
	}
	r.handler(x)
}

func (r row) want(engine string) string {
	if r.all != "" {
		return r.all
	}
	return map[string]string{"Shockwave": r.shockwave, "net/http": r.nethttp, "fasthttp": r.fasthttp}[engine]
}

// echo responds with what the engine makes of the request, the body last.
func echo(x exchange) {
	body, err := x.readBody()
	text := x.method() + " " + x.path()
	if query := x.query(); query != "" {
		text += " query=" + query
	}
	if body != "" {
		text += " body=" + body
	}
	if err != nil {
		text += " error"
	}
	x.write(text)
}

// ignore responses without reading the body.
func ignore(x exchange) { x.write("ok") }

// splits tries to make one field line into two.
func splits(x exchange) {
	if err := x.set("X-A", "1\r\nX-Injected: 2"); err != nil {
		x.write("refused")
	}
}

// overruns declares two bytes and writes four; it writes two when it is told.
func overruns(x exchange) {
	x.set("Content-Length", "2")
	if err := x.write("four"); err != nil {
		x.write("er")
	}
}

// shows responses with the value of a request field.
func shows(name string) handler {
	return func(x exchange) { x.write(name + "=" + x.field(name)) }
}

const host = " HTTP/1.1\r\nHost: a\r\n"

func get(target string) string { return "GET " + target + host + "\r\n" }

func getWith(fields string) string { return "GET /" + host + fields + "\r\n" }

func post(fields, body string) string { return "POST /" + host + fields + "\r\n" + body }

func chunked(body string) string { return post("Transfer-Encoding: chunked\r\n", body) }

func long(data int) string { return strings.Repeat("a", data) }

var rows = slices.Concat(answerRows, connectionRows, bodyRows, framingRows, headRows, targetRows)

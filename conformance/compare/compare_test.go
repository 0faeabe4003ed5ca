// Package compare holds Shockwave against net/http and fasthttp: the same requests to all three over TCP, and
// where the responses differ, why. It is a module of its own, for the engine itself depends on nothing.
package compare

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// patience is how long an engine may take; no test waits so long when all is well.
const patience = 10 * time.Second

// An engine serves a handler on a listener until that is closed.
type engine struct {
	name  string
	serve func(net.Listener, handler) error
}

// A handler is written once for the three engines.
type handler func(exchange)

// An exchange is what the three engines have in common, each with its own defaults.
type exchange interface {
	method() string
	path() string
	query() string
	host() string
	field(name string) string
	cookie(name string) string
	readBody() (string, error)
	trailer(name string) string
	setStatus(int)
	set(name, value string) error
	add(name, value string) error
	write(string) error
	// stream writes pieces and flushes after each.
	stream(pieces ...string)
	// sendTrailer is called before the first byte of the body, which a stream follows.
	sendTrailer(name, value string)
}

func TestTheThreeEnginesRespond(t *testing.T) {
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			for _, engine := range engines {
				want := row.want(engine.name)
				ask := ask
				if want == dies {
					ask = askProcess
				}
				if got := ask(t, engine, row); got != want {
					t.Errorf("%s\n  request %q\n  got     %s\n  want    %s", engine.name, row.request, got, want)
				}
			}
			if (row.all == "") != (row.why != "") {
				t.Error("a reason stands where the engines differ, and only there")
			}
		})
	}
}

// ask returns what the engine answers to the row's request: for each response its status, the fields
// that the row shows and the body; at last whether the connection still serves.
func ask(t *testing.T, engine engine, row row) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- engine.serve(listener, row.handle) }()
	defer func() {
		listener.Close()
		<-served
	}()
	return askAt(t, listener.Addr().String(), engine, row)
}

func askAt(t *testing.T, address string, engine engine, row row) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	go send(conn, row)
	return strings.Join(answers(bufio.NewReader(conn), conn, engine, row), "; ")
}

// send does not look at errors: an engine may refuse before it has read everything, and what it answers is
// read all the same.
func send(conn net.Conn, row row) {
	io.WriteString(conn, row.request)
	if row.ends {
		conn.(*net.TCPConn).CloseWrite()
	}
}

func answers(from *bufio.Reader, conn net.Conn, engine engine, row row) []string {
	var answers []string
	for range max(row.responses, 1) {
		answer, err := answer(from, engine, row)
		if err != nil {
			return append(answers, ending(err))
		}
		answers = append(answers, answer)
	}
	if row.ends {
		return answers
	}
	return append(answers, stays(from, conn))
}

// answer reads a response with those before it that are interim.
func answer(from *bufio.Reader, engine engine, row row) (string, error) {
	method, _, _ := strings.Cut(strings.TrimLeft(row.request, "\r\n"), " ")
	response, err := http.ReadResponse(from, &http.Request{Method: method})
	if err != nil {
		return "", err
	}
	text := fmt.Sprint(response.StatusCode)
	for _, name := range row.show {
		for _, value := range response.Header.Values(name) {
			if _, err := http.ParseTime(value); err == nil {
				value = "a date"
			}
			text += fmt.Sprintf(" %s=%q", name, value)
		}
	}
	if response.StatusCode < 200 && response.StatusCode != http.StatusSwitchingProtocols {
		final, err := answer(from, engine, row)
		return text + ", " + final, err
	}
	if len(response.TransferEncoding) > 0 {
		text += " chunked"
	}
	body, err := io.ReadAll(response.Body)
	switch {
	case refuses(engine.name, row, response.StatusCode, string(body)):
		// Known, and each engine has its own words: rows show the status.
	case len(body) == 0 && response.StatusCode < 400:
	case len(body) > 1000:
		text += fmt.Sprintf(" %d bytes", len(body))
	default:
		text += fmt.Sprintf(" %q", body)
	}
	for name := range response.Trailer {
		text += fmt.Sprintf(" trailer %s=%q", name, response.Trailer.Get(name))
	}
	if err != nil {
		text += " cut short"
	}
	return text, nil
}

// stays says whether another request is answered.
func stays(from *bufio.Reader, conn net.Conn) string {
	if _, err := io.WriteString(conn, "GET /next HTTP/1.1\r\nHost: next\r\n\r\n"); err != nil {
		return "closes"
	}
	switch _, err := http.ReadResponse(from, nil); {
	case err == nil:
		return "stays"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), strings.Contains(err.Error(), "reset by peer"):
		return "closes"
	default:
		return err.Error()
	}
}

func ending(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(err.Error(), "reset by peer") {
		return "closes without a response"
	}
	return err.Error()
}

package stdhttp

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"titan.test/shockwave"
)

// memory gives a connection and a listener that accepts its other end: where nothing else waits, time is virtual.
func memory() (net.Conn, *single) {
	client, server := net.Pipe()
	return client, &single{conn: server, ended: make(chan struct{}), closed: make(chan struct{})}
}

// watched tells when h has returned.
func watched(h http.Handler) (http.Handler, <-chan struct{}) {
	returned := make(chan struct{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(returned)
		h.ServeHTTP(w, r)
	}), returned
}

// pours writes until the engine says why not; the error may be ignored.
func pours(ended chan<- error) shockwave.Handler {
	return func(c *shockwave.Ctx) {
		piece := make([]byte, 64<<10)
		for {
			if _, err := c.Write(piece); err != nil {
				if ended != nil {
					ended <- err
				}
				return
			}
		}
	}
}

// TestUnderSlowReader has a client that takes nothing of a response.
func TestUnderSlowReader(t *testing.T) {
	for name, h := range map[string]shockwave.Handler{
		"long":    pours(nil),
		"short":   func(c *shockwave.Ctx) { c.SendString("text/plain", "x") },
		"interim": func(c *shockwave.Ctx) { c.Early("Link", "</a>") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, ln := memory()
				h, returned := watched(HTTPHandler(h))
				server := &http.Server{Handler: h, ErrorLog: quiet()}
				go server.Serve(ln)
				defer server.Close()
				begin := time.Now()
				fmt.Fprint(client, get)
				<-returned
				if d := time.Since(begin); d < writeDefault || d > 2*writeDefault {
					t.Error("ended behind", d)
				}
			})
		})
	}
}

// TestUnderPatience has a client that takes a piece of the response now and then: as long as each wait is in time, the
// answer may last.
func TestUnderPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, ln := memory()
		server := &http.Server{Handler: HTTPHandler(func(c *shockwave.Ctx) {
			for range 8 {
				c.Write(make([]byte, pieceSize))
				c.Flush()
			}
		})}
		go server.Serve(ln)
		defer server.Close()
		fmt.Fprint(client, get)
		response, err := http.ReadResponse(bufio.NewReaderSize(client, 16), nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 8 {
			time.Sleep(writeDefault / 3)
			if _, err := io.ReadFull(response.Body, make([]byte, pieceSize)); err != nil {
				t.Fatal(err)
			}
		}
		if rest, err := io.ReadAll(response.Body); err != nil || len(rest) > 0 {
			t.Error(rest, err)
		}
	})
}

// TestUnderDeadlineEndsWithItsRequest has the next request come when the deadline of the response before has passed.
func TestUnderDeadlineEndsWithItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, ln := memory()
		server := &http.Server{Handler: HTTPHandler(func(c *shockwave.Ctx) {
			c.WriteString("x")
			c.Flush()
		})}
		go server.Serve(ln)
		defer server.Close()
		buffered := bufio.NewReader(client)
		for range 3 {
			fmt.Fprint(client, get)
			response, err := http.ReadResponse(buffered, nil)
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(response.Body); err != nil || string(body) != "x" {
				t.Fatal(string(body), err)
			}
			time.Sleep(2 * writeDefault)
		}
	})
}

// TestUnderStalledHTTP1Body has the client stop inside its body: it gets a response, and the connection ends.
func TestUnderStalledHTTP1Body(t *testing.T) {
	for name, h := range map[string]shockwave.Handler{
		"408": func(c *shockwave.Ctx) { c.ReadBody(-1) },
		"200": func(c *shockwave.Ctx) { c.SendString("text/plain", "enough") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, ln := memory()
				h, returned := watched(HTTPHandler(h))
				server := &http.Server{Handler: h, ErrorLog: quiet()}
				go server.Serve(ln)
				defer server.Close()
				fmt.Fprint(client, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nh")
				buffered := bufio.NewReader(client)
				response, err := http.ReadResponse(buffered, nil)
				if err != nil {
					t.Fatal(err)
				}
				if body, err := io.ReadAll(response.Body); err != nil || response.Status[:3] != name || !response.Close {
					t.Error(response.Status, response.Close, string(body), err)
				}
				<-returned
				if rest, err := io.ReadAll(buffered); err != nil || len(rest) > 0 {
					t.Error(string(rest), err)
				}
			})
		})
	}
}

// TestUnderUpgradeInABody has the handler take the protocol over before it has read the body: where the new one begins
// is not known then.
func TestUnderUpgradeInABody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, ln := memory()
		server := &http.Server{ErrorLog: quiet(), Handler: HTTPHandler(func(c *shockwave.Ctx) {
			conn, _, err := c.Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		})}
		go server.Serve(ln)
		defer server.Close()
		fmt.Fprint(client, "POST / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\nContent-Length: 5\r\n\r\nh")
		if got, err := io.ReadAll(client); err != nil || len(got) > 0 {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// TestUnderReadBodyKeepsTheConnection sends two requests whose bodies the handler reads.
func TestUnderReadBodyKeepsTheConnection(t *testing.T) {
	for name, body := range map[string]string{
		"counted": "Content-Length: 5\r\n\r\nhello",
		"chunked": "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, ln := memory()
				server := &http.Server{Handler: HTTPHandler(func(c *shockwave.Ctx) {
					body, _ := c.ReadBody(-1)
					c.Send("text/plain", body)
				})}
				go server.Serve(ln)
				defer server.Close()
				buffered := bufio.NewReader(client)
				for range 20 {
					fmt.Fprint(client, "POST / HTTP/1.1\r\nHost: h\r\n", body)
					response, err := http.ReadResponse(buffered, nil)
					if err != nil {
						t.Fatal(err)
					}
					if got, err := io.ReadAll(response.Body); err != nil || string(got) != "hello" || response.Close {
						t.Fatal(string(got), response.Close, err)
					}
				}
			})
		})
	}
}

// TestH2SlowReader has a client that reads what comes and takes nothing of the stream's body.
func TestH2SlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		s := h2Server(t, pours(ended))
		client, ln := memory()
		go s.ServeTLS(ln)
		transport := &http.Transport{
			DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				c := tls.Client(client, h2Client)
				return c, c.HandshakeContext(ctx)
			},
			ForceAttemptHTTP2: true,
		}
		response, err := transport.RoundTrip(request(t, "GET", "https://h/", nil))
		if err != nil {
			t.Fatal(err)
		}
		if err := <-ended; response.ProtoMajor != 2 || !errors.Is(err, shockwave.ErrTimeout) {
			t.Error(response.Proto, err)
		}
		// Shutdown waits for the streams.
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := io.Copy(io.Discard, response.Body); err == nil {
			t.Error("a response that was cut off looks whole")
		}
		response.Body.Close()
		transport.CloseIdleConnections()
		awaitPolls()
	})
}

// awaitPolls lets http.Server.Shutdown see that no connection is left: it looks again and again.
func awaitPolls() { time.Sleep(time.Second) }

// h2Client is the client's end of TLS for HTTP/2.
var h2Client = &tls.Config{NextProtos: []string{"h2"}, InsecureSkipVerify: true}

// The certificate is made before any test: those in virtual time would date it for the year 2000.
var _, _ = testCertificate()

func h2Server(t *testing.T, h shockwave.Handler) *shockwave.Server {
	certificate, err := testCertificate()
	if err != nil {
		t.Fatal(err)
	}
	s := &shockwave.Server{
		Handler:   h,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
		ErrorLog:  quietLog(),
	}
	H2(s)
	return s
}

// TestH2DeafClient begins a connection and reads nothing: what is written to it must end.
func TestH2DeafClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := h2Server(t, func(*shockwave.Ctx) {})
		client, ln := memory()
		go s.ServeTLS(ln)
		secure := tls.Client(client, h2Client)
		begin := time.Now()
		fmt.Fprint(secure, h2Preface)
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if d := time.Since(begin); d > 2*writeDefault {
			t.Error("ended behind", d)
		}
		client.Close()
		awaitPolls()
	})
}

// h2Preface is how a client begins, with an empty frame of settings.
const h2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// TestH2Settings reads what the server tells of its bounds; RFC 9113 section 6.5.
func TestH2Settings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := h2Server(t, func(*shockwave.Ctx) {})
		client, ln := memory()
		go s.ServeTLS(ln)
		secure := tls.Client(client, h2Client)
		fmt.Fprint(secure, h2Preface)
		head := make([]byte, 9)
		if _, err := io.ReadFull(secure, head); err != nil || head[3] != 4 {
			t.Fatal(head, err)
		}
		settings := make([]byte, int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(secure, settings); err != nil {
			t.Fatal(err)
		}
		got := make(map[byte]int)
		for ; len(settings) > 0; settings = settings[6:] {
			got[settings[1]] = int(settings[2])<<24 | int(settings[3])<<16 | int(settings[4])<<8 | int(settings[5])
		}
		for id, want := range map[byte]int{3: maxStreams, 4: bodyPerStream, 6: 16<<10 + 320} {
			if got[id] != want {
				t.Errorf("setting %d is %d, want %d", id, got[id], want)
			}
		}
		s.Close()
		client.Close()
		awaitPolls()
	})
}

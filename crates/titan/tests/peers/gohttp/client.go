package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"time"
)

// A judge asks the gateway at base.
type judge struct {
	base   string
	client *http.Client
}

var cases = []struct {
	name string
	run  func(judge) error
}{
	{"get", judge.get},
	{"head-has-a-length-and-no-body", judge.head},
	{"no-content-and-not-modified", judge.bodiless},
	{"options-asterisk", judge.asterisk},
	{"post-with-length", judge.postLength},
	{"post-empty", judge.postEmpty},
	{"post-chunked", judge.postChunked},
	{"post-trailers", judge.postTrailers},
	{"fields-several-and-empty", judge.fields},
	{"upgrade-that-no-route-allows-is-not-passed-on", judge.upgrade},
	{"response-chunked", judge.responseChunked},
	{"response-large", judge.responseLarge},
	{"response-trailers", judge.responseTrailers},
	{"expect-continue", judge.expectContinue},
	{"early-hints", judge.earlyHints},
	{"early-answer-to-an-upload", judge.earlyAnswer},
	{"cut-off-answers-look-cut-off", judge.cutOff},
	{"connection-is-kept", judge.keepAlive},
	{"connection-close", judge.closes},
	{"both-directions-at-once", judge.duplex},
	{"large-both-ways", judge.largeBothWays},
	{"many-at-once-are-not-mixed-up", judge.many},
}

// check runs the cases of those names, or every one, and tells whether all passed. With h2 it speaks HTTP/2
// without TLS.
func check(base string, names []string, h2 bool) bool {
	passed := true
	for _, c := range cases {
		if len(names) > 0 && !slices.Contains(names, c.name) {
			continue
		}
		transport := &http.Transport{
			DisableCompression:    true,
			MaxIdleConnsPerHost:   64,
			ExpectContinueTimeout: time.Minute,
		}
		if h2 {
			transport.Protocols = new(http.Protocols)
			transport.Protocols.SetUnencryptedHTTP2(true)
		}
		j := judge{base, &http.Client{Transport: transport, Timeout: time.Minute}}
		if err := c.run(j); err != nil {
			passed = false
			fmt.Printf("FAIL %s: %v\n", c.name, err)
		} else {
			fmt.Printf("ok   %s\n", c.name)
		}
		transport.CloseIdleConnections()
	}
	return passed
}

// request is one to the gateway.
func (j judge) request(method, target string, body io.Reader) *http.Request {
	r, err := http.NewRequest(method, j.base+target, body)
	if err != nil {
		panic(err)
	}
	return r
}

// do sends a request and reads the whole response.
func (j judge) do(r *http.Request) (*http.Response, []byte, error) {
	response, err := j.client.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response, body, err
}

// seen sends a request and returns what the upstream saw of it.
func (j judge) seen(r *http.Request) (seen, error) {
	response, body, err := j.do(r)
	if err != nil {
		return seen{}, err
	}
	if response.StatusCode != 200 {
		return seen{}, fmt.Errorf("status %s: %s", response.Status, body)
	}
	var s seen
	err = json.Unmarshal(body, &s)
	if err == nil && s.BodyError != "" {
		err = errors.New(s.BodyError)
	}
	return s, err
}

// same is an error unless got is what was wanted.
func same[T any](what string, got, want T) error {
	if g, w := fmt.Sprintf("%q", fmt.Sprint(got)), fmt.Sprintf("%q", fmt.Sprint(want)); g != w {
		return fmt.Errorf("%s is %.200s, not %.200s", what, g, w)
	}
	return nil
}

// hasBody checks what the upstream saw of a body.
func (s seen) hasBody(body []byte) error {
	return errors.Join(
		same("body length", s.BodyLength, int64(len(body))),
		same("body sum", s.BodySum, sumOf(body)),
	)
}

func (j judge) get() error {
	r := j.request("GET", "/a/b?c=d&e=%2F", nil)
	r.Host = "shop.example"
	s, err := j.seen(r)
	return errors.Join(err,
		same("method", s.Method, "GET"),
		same("target", s.Target, "/a/b?c=d&e=%2F"),
		same("protocol", s.Proto, "HTTP/1.1"),
		same("host", s.Host, "shop.example"),
		same("content length", s.ContentLength, 0),
		same("transfer encoding", len(s.TransferEncoding), 0),
		same("client", s.Header.Get("X-Forwarded-For"), "127.0.0.1"),
	)
}

func (j judge) head() error {
	r, body, err := j.do(j.request("HEAD", "/length?n=1000", nil))
	if err != nil {
		return err
	}
	return errors.Join(
		same("content length", r.ContentLength, 1000),
		same("body length", len(body), 0),
	)
}

func (j judge) bodiless() error {
	for _, code := range []int{204, 304} {
		r, body, err := j.do(j.request("GET", fmt.Sprint("/status?code=", code), nil))
		if err != nil {
			return err
		}
		err = errors.Join(
			same("status", r.StatusCode, code),
			same("body length", len(body), 0),
			same("ETag", r.Header.Get("ETag"), `"e"`),
			same("transfer encoding", len(r.TransferEncoding), 0),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

func (j judge) asterisk() error {
	r := j.request("OPTIONS", "/", nil)
	r.URL.Opaque = "*"
	response, body, err := j.do(r)
	if err != nil {
		return err
	}
	// net/http answers this one itself.
	return errors.Join(same("status", response.StatusCode, 200), same("body", len(body), 0))
}

func (j judge) postLength() error {
	body := pattern(100_000)
	s, err := j.seen(j.request("POST", "/", bytes.NewReader(body)))
	return errors.Join(err,
		same("content length", s.ContentLength, 100_000),
		same("transfer encoding", len(s.TransferEncoding), 0),
		s.hasBody(body),
	)
}

func (j judge) postEmpty() error {
	s, err := j.seen(j.request("POST", "/", nil))
	return errors.Join(err, same("content length", s.ContentLength, 0), s.hasBody(nil))
}

// unsized hides from net/http how long a body is, so that it is sent in chunks.
func unsized(body []byte) io.Reader {
	return io.MultiReader(bytes.NewReader(body))
}

func (j judge) postChunked() error {
	for _, length := range []int{1, 1000, 3_000_000} {
		body := pattern(length)
		s, err := j.seen(j.request("POST", "/", unsized(body)))
		err = errors.Join(err,
			same("content length", s.ContentLength, -1),
			same("transfer encoding", s.TransferEncoding, []string{"chunked"}),
			s.hasBody(body),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

func (j judge) postTrailers() error {
	r := j.request("POST", "/", unsized(pattern(10)))
	r.Trailer = http.Header{"X-Sum": {"abc"}, "X-Other": {"d e"}}
	s, err := j.seen(r)
	return errors.Join(err,
		s.hasBody(pattern(10)),
		same("trailer", s.Trailer.Get("X-Sum"), "abc"),
		same("trailer", s.Trailer.Get("X-Other"), "d e"),
	)
}

func (j judge) fields() error {
	r := j.request("GET", "/", nil)
	r.Header["X-Several"] = []string{"one", "two, three", ""}
	r.Header["X-Empty"] = []string{""}
	r.Header["X-Hop"] = []string{"gone"}
	r.Header["Connection"] = []string{"X-Hop"}
	r.Header["Te"] = []string{"trailers"}
	s, err := j.seen(r)
	return errors.Join(err,
		same("several", s.Header["X-Several"], []string{"one", "two, three", ""}),
		same("empty", s.Header["X-Empty"], []string{""}),
		same("named by Connection", len(s.Header["X-Hop"]), 0),
	)
}

func (j judge) upgrade() error {
	r := j.request("GET", "/", nil)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "other")
	s, err := j.seen(r)
	return errors.Join(err,
		same("upgrade", s.Header.Get("Upgrade"), ""),
		same("connection", s.Header.Get("Connection"), ""),
	)
}

func (j judge) responseChunked() error {
	for _, target := range []string{"/chunks?n=1&size=1", "/chunks?n=5000&size=7", "/chunks?n=3000000&size=40000"} {
		r, body, err := j.do(j.request("GET", target, nil))
		if err != nil {
			return err
		}
		err = errors.Join(
			same("transfer encoding", r.TransferEncoding, []string{"chunked"}),
			same("body", sumOf(body), sumOf(pattern(len(body)))),
			same("target", target, fmt.Sprintf("/chunks?n=%d&size%s", len(body), target[strings.LastIndex(target, "="):])),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

func (j judge) responseLarge() error {
	for _, n := range []int{0, 1, 65535, 65536, 65537, 20 << 20} {
		r, body, err := j.do(j.request("GET", fmt.Sprint("/length?n=", n), nil))
		if err != nil {
			return err
		}
		err = errors.Join(
			same("content length", r.ContentLength, int64(n)),
			same("body", sumOf(body), sumOf(pattern(n))),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

func (j judge) responseTrailers() error {
	r, body, err := j.do(j.request("GET", "/trailers", nil))
	if err != nil {
		return err
	}
	return same("trailer", r.Trailer.Get("X-Sum"), sumOf(body))
}

// traced lets a request report what happens to it.
func traced(r *http.Request, trace *httptrace.ClientTrace) *http.Request {
	return r.WithContext(httptrace.WithClientTrace(r.Context(), trace))
}

func (j judge) expectContinue() error {
	told := false
	trace := &httptrace.ClientTrace{Got100Continue: func() { told = true }}
	body := pattern(200_000)
	r := traced(j.request("POST", "/", bytes.NewReader(body)), trace)
	r.Header.Set("Expect", "100-continue")
	s, err := j.seen(r)
	return errors.Join(err, same("told to continue", told, true), s.hasBody(body))
}

func (j judge) earlyHints() error {
	var links []string
	got := func(code int, header textproto.MIMEHeader) error {
		links = append(links, fmt.Sprint(code, " ", header.Get("Link")))
		return nil
	}
	r := traced(j.request("GET", "/hints", nil), &httptrace.ClientTrace{Got1xxResponse: got})
	response, _, err := j.do(r)
	if err != nil {
		return err
	}
	return errors.Join(
		same("hints", links, []string{"103 </style.css>; rel=preload"}),
		same("status", response.StatusCode, 200),
	)
}

func (j judge) earlyAnswer() error {
	r := j.request("POST", "/early", unsized(pattern(8<<20)))
	response, body, err := j.do(r)
	if err != nil {
		return err
	}
	return errors.Join(same("status", response.StatusCode, 403), same("body", string(body), "no\n"))
}

func (j judge) cutOff() error {
	for _, target := range []string{"/abort", "/abort?length"} {
		_, body, err := j.do(j.request("GET", target, nil))
		if err == nil {
			return fmt.Errorf("%s: %d bytes look like the whole response", target, len(body))
		}
	}
	return nil
}

func (j judge) keepAlive() error {
	reused := 0
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if info.Reused {
			reused++
		}
	}}
	requests := []*http.Request{
		j.request("GET", "/", nil),
		j.request("POST", "/", bytes.NewReader(pattern(10))),
		j.request("POST", "/", unsized(pattern(10))),
		j.request("HEAD", "/length?n=7", nil),
		j.request("GET", "/chunks?n=10&size=3", nil),
		j.request("GET", "/status?code=304", nil),
		j.request("GET", "/missing", nil),
	}
	for _, r := range requests {
		if _, _, err := j.do(traced(r, trace)); err != nil {
			return err
		}
	}
	return same("requests on a kept connection", reused, len(requests)-1)
}

func (j judge) closes() error {
	r := j.request("GET", "/", nil)
	r.Close = true
	response, _, err := j.do(r)
	if err != nil {
		return err
	}
	return same("closes", response.Close, true)
}

// duplex sends each piece of a body only when the one before it has come back.
func (j judge) duplex() error {
	from, into := io.Pipe()
	r := j.request("POST", "/mirror", from)
	response, err := j.client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	for i := range 20 {
		sent := pattern(1 + i*997)
		if _, err := into.Write(sent); err != nil {
			return err
		}
		got := make([]byte, len(sent))
		if _, err := io.ReadFull(response.Body, got); err != nil {
			return err
		}
		if err := same("piece", sumOf(got), sumOf(sent)); err != nil {
			return err
		}
	}
	into.Close()
	rest, err := io.ReadAll(response.Body)
	return errors.Join(err, same("rest", len(rest), 0))
}

func (j judge) largeBothWays() error {
	body := pattern(20 << 20)
	for _, reader := range []io.Reader{bytes.NewReader(body), unsized(body)} {
		_, got, err := j.do(j.request("PUT", "/mirror", reader))
		if err != nil {
			return err
		}
		if !slices.Equal(got, body) {
			return fmt.Errorf("%d bytes came back changed", len(got))
		}
	}
	return nil
}

// many asks at once from many sides; each response must be that to its own request.
func (j judge) many() error {
	const clients, requests = 32, 40
	failed := make([]error, clients)
	var all sync.WaitGroup
	for c := range clients {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := range requests {
				if err := j.own(fmt.Sprint(c, "-", i), i); err != nil {
					failed[c] = err
					return
				}
			}
		}()
	}
	all.Wait()
	return errors.Join(failed...)
}

func (j judge) own(id string, i int) error {
	body := []byte(strings.Repeat(id+" ", 1+i*i))
	reader := io.Reader(bytes.NewReader(body))
	if i%2 == 1 {
		reader = unsized(body)
	}
	r := j.request("POST", "/mirror", reader)
	r.Header.Set("X-Asks", id)
	response, got, err := j.do(r)
	if err != nil {
		var broken *net.OpError
		if errors.As(err, &broken) {
			return fmt.Errorf("%s: connection broken: %w", id, err)
		}
		return err
	}
	return errors.Join(
		same("status", response.StatusCode, 200),
		same("answered request", response.Header.Get("X-Answers"), id),
		same("body", sumOf(got), sumOf(body)),
	)
}

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
)

// seen is a request as net/http parsed it.
type seen struct {
	Method           string
	Target           string
	Proto            string
	Host             string
	Header           http.Header
	TransferEncoding []string
	ContentLength    int64
	Trailer          http.Header
	// BodyLength and BodySum stand for the body, which may be large or no text.
	BodyLength int64
	BodySum    string
	// BodyError is why the body could not be read to its end.
	BodyError string
}

func serve(address string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/", tell)
	mux.HandleFunc("/mirror", mirror)
	mux.HandleFunc("/length", length)
	mux.HandleFunc("/chunks", chunks)
	mux.HandleFunc("/trailers", trailers)
	mux.HandleFunc("/hints", hints)
	mux.HandleFunc("/early", early)
	mux.HandleFunc("/abort", abort)
	mux.HandleFunc("/status", status)
	mux.HandleFunc("/events", events)
	mux.HandleFunc("/poll", poll)
	mux.HandleFunc("/seen", note)
	server := http.Server{Addr: address, Handler: mux, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	return server.ListenAndServe()
}

// tell responds with what was seen of the request.
func tell(w http.ResponseWriter, r *http.Request) {
	sum := sha256.New()
	length, err := io.Copy(sum, r.Body)
	answer := seen{
		Method: r.Method, Target: r.RequestURI, Proto: r.Proto, Host: r.Host, Header: r.Header,
		TransferEncoding: r.TransferEncoding, ContentLength: r.ContentLength, Trailer: r.Trailer,
		BodyLength: length, BodySum: hex.EncodeToString(sum.Sum(nil)),
	}
	if err != nil {
		answer.BodyError = err.Error()
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(answer)
}

// mirror sends back what comes while it comes, and names the request that it answers.
func mirror(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	control.EnableFullDuplex()
	w.Header().Set("X-Answers", r.Header.Get("X-Asks"))
	control.Flush()
	buffer := make([]byte, 64<<10)
	for {
		n, err := r.Body.Read(buffer)
		if n > 0 {
			w.Write(buffer[:n])
			control.Flush()
		}
		if err != nil {
			return
		}
	}
}

func length(w http.ResponseWriter, r *http.Request) {
	n := number(r, "n")
	w.Header().Set("Content-Length", strconv.Itoa(n))
	w.Write(pattern(n))
}

func chunks(w http.ResponseWriter, r *http.Request) {
	body := pattern(number(r, "n"))
	for size := number(r, "size"); len(body) > 0; body = body[size:] {
		size = min(size, len(body))
		w.Write(body[:size])
		w.(http.Flusher).Flush()
	}
}

func trailers(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Trailer", "X-Sum")
	w.Write(pattern(1000))
	w.Header().Set("X-Sum", sumOf(pattern(1000)))
}

func hints(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Link", "</style.css>; rel=preload")
	w.WriteHeader(http.StatusEarlyHints)
	w.Header().Del("Link")
	w.WriteHeader(http.StatusOK)
}

// early responses without reading the body.
func early(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close")
	http.Error(w, "no", http.StatusForbidden)
}

// abort cuts its response off in the middle.
func abort(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Has("length") {
		w.Header().Set("Content-Length", "1000")
	}
	w.Write(pattern(500))
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

func status(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("ETag", `"e"`)
	w.WriteHeader(number(r, "code"))
}

func number(r *http.Request, name string) int {
	n, _ := strconv.Atoi(r.URL.Query().Get(name))
	return n
}

// pattern is n bytes that are wrong when they are moved.
func pattern(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i*7 + i>>8*13 + i>>16*29)
	}
	return data
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

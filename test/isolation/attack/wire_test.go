package attack

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
)

// wire sends requests exactly as they are written.
type wire struct {
	client *http.Client
	tls    *tls.Config
	host   string
	token  string
}

// newWire returns a connection with the credentials of config.
func newWire(config *rest.Config) *wire {
	GinkgoHelper()
	server, err := url.Parse(tenantry.ShortPath(config).Host)
	Expect(err).NotTo(HaveOccurred())
	secured, err := rest.TLSConfigFor(config)
	Expect(err).NotTo(HaveOccurred())
	second := secured.Clone()
	second.NextProtos = []string{"h2"}
	return &wire{
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: second, ForceAttemptHTTP2: true}},
		tls:    secured, host: server.Host, token: config.BearerToken,
	}
}

type answer struct {
	status int
	body   string
}

// send makes a request over HTTP/2.
func (w *wire) send(ctx context.Context, c call, header http.Header) answer {
	GinkgoHelper()
	target := &url.URL{Scheme: "https", Host: w.host, Opaque: c.path + c.query}
	req, err := http.NewRequestWithContext(ctx, c.method, "https://"+w.host, strings.NewReader(c.body))
	Expect(err).NotTo(HaveOccurred())
	req.URL = target
	req.Header = w.header(c, header)
	response, err := w.client.Do(req)
	Expect(err).NotTo(HaveOccurred())
	Expect(response.ProtoMajor).To(Equal(2))
	return read(response)
}

// sendPlain makes a request over HTTP/1.1, its first line byte for byte.
func (w *wire) sendPlain(ctx context.Context, c call, header http.Header) answer {
	GinkgoHelper()
	first := w.tls.Clone()
	first.NextProtos = []string{"http/1.1"}
	dialer := tls.Dialer{Config: first}
	conn, err := dialer.DialContext(ctx, "tcp", w.host)
	Expect(err).NotTo(HaveOccurred())
	defer conn.Close()
	var request strings.Builder
	fmt.Fprintf(&request, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\nConnection: close\r\n", c.method, c.path+c.query, w.host, len(c.body))
	Expect(w.header(c, header).Write(&request)).To(Succeed())
	request.WriteString("\r\n" + c.body)
	_, err = io.WriteString(conn, request.String())
	Expect(err).NotTo(HaveOccurred())
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	Expect(err).NotTo(HaveOccurred())
	return read(response)
}

func (w *wire) header(c call, more http.Header) http.Header {
	header := more.Clone()
	if header == nil {
		header = http.Header{}
	}
	if w.token != "" {
		header.Set("Authorization", "Bearer "+w.token)
	}
	header.Set("Accept", "application/json")
	if c.body != "" {
		header.Set("Content-Type", "application/json")
		if c.contentType != "" {
			header.Set("Content-Type", c.contentType)
		}
	}
	return header
}

func read(response *http.Response) answer {
	GinkgoHelper()
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return answer{response.StatusCode, string(body)}
}

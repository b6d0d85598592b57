package connect

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	podrest "k8s.io/kubernetes/pkg/registry/core/pod/rest"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
)

var shop = names.Namespace{Installation: "i", Tenant: "acme", TenantUID: "t", Name: "shop", UID: "n"}

// space is the storage of the one pod of a space, and of others, which are listed.
type space struct {
	rest.TableConvertor
	pod    *core.Pod
	others []core.Pod
}

// Get implements rest.Getter.
func (s space) Get(_ context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	if s.pod == nil || name != s.pod.Name {
		return nil, apierrors.NewNotFound(core.Resource("pods"), name)
	}
	return s.pod, nil
}

// List implements rest.Lister.
func (s space) List(_ context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	list := &core.PodList{}
	for _, pod := range s.others {
		named := options.FieldSelector == nil || options.FieldSelector.Matches(fields.Set{metav1.ObjectNameField: pod.Name})
		if named && (options.LabelSelector == nil || options.LabelSelector.Matches(labels.Set(pod.Labels))) {
			list.Items = append(list.Items, pod)
		}
	}
	return list, nil
}

// NewList implements rest.Lister.
func (space) NewList() runtime.Object { return &core.PodList{} }

// New and Destroy implement rest.Storage.
func (space) New() runtime.Object { return &core.Pod{} }
func (space) Destroy()            {}

// forged is a pod whose tenant has written what it could into it.
func forged() *core.Pod {
	return &core.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "shop", UID: "p", Annotations: map[string]string{names.HostUIDAnnotation: "other"}},
		Spec:       core.PodSpec{NodeName: "169.254.169.254", Containers: []core.Container{{Name: "c"}}},
		Status:     core.PodStatus{PodIP: "127.0.0.1", HostIP: "127.0.0.1", PodIPs: []core.PodIP{{IP: "127.0.0.1"}}},
	}
}

// cluster is a host with one pod, whose marks can be changed.
type cluster struct {
	*httptest.Server
	marks map[string]string
	// got are the requests but those for metadata.
	got chan *http.Request
	// refuse answers requests but those for metadata, unless it is nil.
	refuse func(http.ResponseWriter)
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{marks: shop.MarksOf("web-0", "p"), got: make(chan *http.Request, 1)}
	c.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		path := strings.TrimPrefix(req.URL.Path, "/base/api/v1/namespaces/"+shop.Host()+"/pods/web-0")
		if path != "" && c.refuse != nil {
			c.refuse(w)
			return
		}
		switch path {
		case "":
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(metav1.PartialObjectMetadata{
				TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
				ObjectMeta: metav1.ObjectMeta{Name: "web-0", Labels: map[string]string{names.InstallationLabel: "i"}, Annotations: c.marks},
			})
		case "/log":
			c.got <- req
			fmt.Fprint(w, "hello")
		case "/exec":
			c.got <- req
			conn, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
			_, _ = io.Copy(conn, buffered)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *cluster) config() Config {
	return Config{
		Host: &restclient.Config{Host: c.URL + "/base", BearerToken: "ours", TLSClientConfig: restclient.TLSClientConfig{
			CAData: pemOf(c.Certificate()),
		}},
		HomeOf:  func(context.Context, tenant.Name, string) (names.Namespace, error) { return shop, nil },
		Streams: 1,
	}
}

func inShop(t *testing.T, verb string) context.Context {
	ctx := genericapirequest.WithNamespace(tenant.WithSpace(t.Context(), "acme"), "shop")
	ctx = genericapirequest.WithUser(ctx, &user.DefaultInfo{Name: "jane"})
	return genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{IsResourceRequest: true, Verb: verb, Resource: "pods", Subresource: "exec", Namespace: "shop", Name: "web-0"})
}

// TestLocate checks that a connection goes to the host's pod with the UIDs of the tenant, the namespace and the
// pod, or nowhere.
func TestLocate(t *testing.T) {
	for name, tc := range map[string]struct {
		pod    func(*core.Pod)
		marks  map[string]string
		ctx    func(context.Context) context.Context
		closed bool
		fail   func(error) bool
	}{
		"the pod":                {},
		"a pod without a node":   {pod: func(p *core.Pod) { p.Spec.NodeName = "" }, fail: apierrors.IsBadRequest},
		"a pod that is not here": {pod: func(p *core.Pod) { p.Name = "other" }, fail: apierrors.IsNotFound},
		"a successor":            {pod: func(p *core.Pod) { p.UID = "next" }, fail: apierrors.IsConflict},
		"a pod without marks":    {marks: map[string]string{}, fail: apierrors.IsConflict},
		"a pod of another tenant": {marks: func() map[string]string {
			other := shop
			other.TenantUID = "other"
			return other.MarksOf("web-0", "p")
		}(), fail: apierrors.IsConflict},
		"the system space":         {ctx: func(ctx context.Context) context.Context { return tenant.WithSpace(ctx, tenant.System) }, fail: apierrors.IsBadRequest},
		"a host that is not there": {closed: true, fail: apierrors.IsServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			if tc.marks != nil {
				c.marks = tc.marks
			}
			pod := forged()
			if tc.pod != nil {
				tc.pod(pod)
			}
			h, err := newHost(c.config(), space{pod: pod})
			if err != nil {
				t.Fatal(err)
			}
			if tc.closed {
				c.Close()
			}
			ctx := inShop(t, "create")
			if tc.ctx != nil {
				ctx = tc.ctx(ctx)
			}
			got, err := h.locate(ctx, "web-0", "exec", &core.PodExecOptions{Command: []string{"a b", "../x", "c&stdin=true"}, Stdout: true})
			if tc.fail != nil {
				if !tc.fail(err) {
					t.Errorf("got %v, %v", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := c.URL + "/base/api/v1/namespaces/" + shop.Host() + "/pods/web-0/exec?command=a+b&command=..%2Fx&command=c%26stdin%3Dtrue&container=c&stdout=true"
			if diff := cmp.Diff(want, got.location.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestContainer checks that a connection is to a container of the space's pod, and to none that the host has put into
// its own.
func TestContainer(t *testing.T) {
	alone, several := forged(), forged()
	several.Spec.Containers = append(several.Spec.Containers, core.Container{Name: "other"})
	several.Spec.InitContainers = []core.Container{{Name: "init"}}
	several.Spec.EphemeralContainers = []core.EphemeralContainer{{EphemeralContainerCommon: core.EphemeralContainerCommon{Name: "debugger"}}}
	for name, tc := range map[string]struct {
		pod             *core.Pod
		container, want string
		fail            string
	}{
		"the only one":                {pod: alone, want: "c"},
		"one of several":              {pod: several, container: "other", want: "other"},
		"an init container":           {pod: several, container: "init", want: "init"},
		"an ephemeral container":      {pod: several, container: "debugger", want: "tn-debugger"},
		"none of several":             {pod: several, fail: "a container name must be specified for pod web-0, choose one of: [init c other debugger]"},
		"one of the host's":           {pod: alone, container: "sidecar", fail: "container sidecar is not valid for pod web-0"},
		"one by its name on the host": {pod: several, container: "tn-debugger", fail: "container tn-debugger is not valid for pod web-0"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, options := range []runtime.Object{
				&core.PodExecOptions{Container: tc.container}, &core.PodAttachOptions{Container: tc.container}, &core.PodLogOptions{Container: tc.container},
			} {
				got, err := hostOptions(options, tc.pod)
				if tc.fail != "" {
					if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), tc.fail) {
						t.Errorf("got %v, %v", got, err)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if named := nameIn(got); named != tc.want || nameIn(options) != tc.container {
					t.Errorf("got %q of %q", named, nameIn(options))
				}
			}
			if _, err := hostOptions(&core.PodPortForwardOptions{}, tc.pod); err != nil {
				t.Error(err)
			}
		})
	}
	if _, err := hostOptions(&core.Pod{}, alone); err == nil {
		t.Error("options of an unknown kind are taken")
	}
}

// nameIn returns the container that options name.
func nameIn(options runtime.Object) string {
	return reflect.ValueOf(options).Elem().FieldByName("Container").String()
}

func TestLogs(t *testing.T) {
	c := newCluster(t)
	storages := storagesOf(forged())
	config, wentOn := c.config(), 0
	config.GoesOn = func(context.Context) { wentOn++ }
	if _, err := Wrap(storages, config, nil); err != nil {
		t.Fatal(err)
	}
	getter := storages["pods/log"].(rest.GetterWithOptions)
	if _, err := getter.Get(inShop(t, "get"), "web-0", &core.PodLogOptions{InsecureSkipTLSVerifyBackend: true}); !apierrors.IsBadRequest(err) {
		t.Errorf("got %v", err)
	}
	open := func() (io.ReadCloser, error) {
		got, err := getter.Get(inShop(t, "get"), "web-0", &core.PodLogOptions{Container: "c", TailLines: new(int64(3))})
		if err != nil {
			t.Fatal(err)
		}
		stream, _, _, err := got.(rest.ResourceStreamer).InputStream(inShop(t, "get"), "", "")
		return stream, err
	}
	stream, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(); !apierrors.IsTooManyRequests(err) || wentOn != 1 {
		t.Errorf("a second stream: %v; %d went on", err, wentOn)
	}
	content, err := io.ReadAll(stream)
	if err != nil || string(content) != "hello" {
		t.Errorf("got %q, %v", content, err)
	}
	if err := stream.Close(); err != nil {
		t.Error(err)
	}
	if req := <-c.got; req.Header.Get("Authorization") != "Bearer ours" || req.URL.Query().Get("tailLines") != "3" {
		t.Errorf("the host got %s, %v", req.URL, req.Header)
	}
	again, err := open()
	if err != nil {
		t.Fatalf("after the first one: %v", err)
	}
	again.Close()
}

// TestUnreadLogs checks that the host sends little of a log that nobody reads.
func TestUnreadLogs(t *testing.T) {
	sent := make(chan int, 1)
	c := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.ProtoMajor != 2 {
			t.Errorf("it is asked by %s", req.Proto)
		}
		control, total, line := http.NewResponseController(w), 0, make([]byte, 1<<10)
		if err := control.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
			t.Error(err)
		}
		for {
			n, err := w.Write(line)
			if total += n; err != nil || total > 2*maxAhead {
				sent <- total
				return
			}
		}
	}))
	c.EnableHTTP2 = true
	c.StartTLS()
	defer c.Close()
	reads, _, err := connectionsOf(&restclient.Config{Host: c.URL, TLSClientConfig: restclient.TLSClientConfig{CAData: pemOf(c.Certificate())}})
	if err != nil {
		t.Fatal(err)
	}
	response, err := reads.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, c.URL, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if n := <-sent; n > 2*maxAhead {
		t.Errorf("%d bytes are sent", n)
	}
}

// TestManyStreams checks that a tenant begins few connections to containers, and logs, in a second, and what is refused
// asks the host nothing.
func TestManyStreams(t *testing.T) {
	storages := storagesOf(forged())
	if _, err := Wrap(storages, newCluster(t).config(), authorizer.AuthorizerFunc(nil)); err != nil {
		t.Fatal(err)
	}
	for what, tc := range map[string]struct {
		atOnce, perSecond int
		begin             func() error
	}{
		"exec": {beginsAtOnce, beginsPerSecond, func() error {
			_, err := storages["pods/exec"].(rest.Connecter).Connect(inShop(t, "create"), "web-0", &core.PodExecOptions{Command: []string{"cat"}}, responder{t})
			return err
		}},
		"log": {logsAtOnce, logsPerSecond, func() error {
			_, err := storages["pods/log"].(rest.GetterWithOptions).Get(inShop(t, "get"), "web-0", &core.PodLogOptions{Container: "c"})
			return err
		}},
	} {
		began := time.Now()
		for done := 0; ; done++ {
			err := tc.begin()
			if apierrors.IsTooManyRequests(err) && done >= tc.atOnce {
				break
			}
			if allowed := float64(tc.atOnce) + float64(tc.perSecond)*(1+time.Since(began).Seconds()); err != nil || float64(done) > allowed {
				t.Fatalf("%s: after %d, of which %f may begin: %v", what, done, allowed, err)
			}
		}
	}
}

// storagesOf returns those that Wrap changes, for one pod.
func storagesOf(pod *core.Pod) map[string]rest.Storage {
	return map[string]rest.Storage{
		"pods": space{pod: pod}, "pods/log": &podrest.LogREST{}, "pods/exec": &podrest.ExecREST{},
		"pods/attach": &podrest.AttachREST{}, "pods/portforward": &podrest.PortForwardREST{},
	}
}

// TestExec checks that a stream goes through with nothing of the client's but what is about it, and ends with
// the request.
func TestExec(t *testing.T) {
	c := newCluster(t)
	storages := storagesOf(forged())
	config, wentOn := c.config(), make(chan struct{}, 1)
	config.GoesOn = func(context.Context) { wentOn <- struct{}{} }
	if _, err := Wrap(storages, config, authorizer.AuthorizerFunc(nil)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	suspended, suspend := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		defer close(ended)
		ctx, cancel := context.WithCancel(inShop(t, "create"))
		context.AfterFunc(suspended, cancel)
		handler, err := storages["pods/exec"].(rest.Connecter).Connect(ctx, "web-0", &core.PodExecOptions{Command: []string{"cat"}, Stdin: true}, responder{t})
		if err != nil {
			t.Error(err)
			return
		}
		req.Body = io.NopCloser(req.Body) // as filters do
		handler.ServeHTTP(w, req.WithContext(ctx))
	}))
	t.Cleanup(server.Close)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST /x?command=evil HTTP/1.1\r\nHost: evil\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4\r\n"+
		"Authorization: Bearer theirs\r\nImpersonate-User: root\r\nX-Remote-User: root\r\nCookie: a=b\r\n\r\n")
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %v, %v", response, err)
	}
	got := <-c.got
	<-wentOn
	for _, name := range []string{"Impersonate-User", "X-Remote-User", "Cookie"} {
		if value := got.Header.Get(name); value != "" {
			t.Errorf("the host got %s: %s", name, value)
		}
	}
	if got.Header.Get("Authorization") != "Bearer ours" || got.Header.Get("X-Stream-Protocol-Version") != "v4" || got.Host == "evil" || got.URL.RawQuery != "command=cat&container=c&stdin=true" {
		t.Errorf("the host got %s %s, %v", got.Host, got.URL, got.Header)
	}
	if len(got.TransferEncoding) > 0 {
		t.Errorf("the host got a body %v", got.TransferEncoding)
	}
	fmt.Fprint(conn, "ping")
	echo := make([]byte, 4)
	if _, err := io.ReadFull(reader, echo); err != nil || string(echo) != "ping" {
		t.Errorf("got %q, %v", echo, err)
	}
	suspend()
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.ReadByte(); !errors.Is(err, io.EOF) {
		t.Fatalf("after the end: %v", err)
	}
	<-ended
}

// TestCreates checks that a WebSocket, which begins with a GET, needs the right to create.
func TestCreates(t *testing.T) {
	c := newCluster(t)
	for decision, allowed := range map[authorizer.Decision]bool{authorizer.DecisionAllow: true, authorizer.DecisionNoOpinion: false, authorizer.DecisionDeny: false} {
		storages := storagesOf(forged())
		var asked []string
		if _, err := Wrap(storages, c.config(), authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			asked = append(asked, a.GetVerb()+" "+a.GetResource()+"/"+a.GetSubresource())
			return decision, "", nil
		})); err != nil {
			t.Fatal(err)
		}
		_, err := storages["pods/exec"].(rest.Connecter).Connect(inShop(t, "get"), "web-0", &core.PodExecOptions{}, responder{t})
		if (err == nil) != allowed || err != nil && !apierrors.IsForbidden(err) {
			t.Errorf("with %v: %v", decision, err)
		}
		if diff := cmp.Diff([]string{"create pods/exec"}, asked); diff != "" {
			t.Error(diff)
		}
	}
}

// TestAsking checks that no tenant's connections wait for those of others before the host is asked.
func TestAsking(t *testing.T) {
	host := &restclient.Config{Host: "h", QPS: 5, RateLimiter: flowcontrol.NewFakeNeverRateLimiter()}
	if own := asking(host); own.QPS >= 0 || own.RateLimiter != nil || own.Timeout == 0 || host.QPS != 5 {
		t.Errorf("got %+v of %+v", own, host)
	}
	c := newCluster(t)
	config := c.config()
	config.Host.RateLimiter = host.RateLimiter
	h, err := newHost(config, space{pod: forged()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.locate(inShop(t, "get"), "web-0", "log", &core.PodLogOptions{}); err != nil {
		t.Errorf("it asks with the limits of others: %v", err)
	}
}

// TestAsOurs checks that no credentials of a client are in what the host gets.
func TestAsOurs(t *testing.T) {
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	req.Header.Set("Authorization", "Bearer theirs")
	req.Header.Add("Sec-Websocket-Protocol", "v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.dG9rZW4")
	req.Header.Add("Sec-Websocket-Protocol", "base64url.bearer.authorization.k8s.io.eA, v4.channel.k8s.io")
	want := http.Header{"Sec-Websocket-Protocol": {"v5.channel.k8s.io, v4.channel.k8s.io"}}
	if diff := cmp.Diff(want, asOurs(req).Header); diff != "" {
		t.Error(diff)
	}
}

type responder struct{ t *testing.T }

// Object implements rest.Responder.
func (r responder) Object(int, runtime.Object) {}

// Error implements rest.Responder.
func (r responder) Error(err error) { r.t.Error(err) }

func pemOf(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
}

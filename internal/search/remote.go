package search

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/search/graphql"
	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/search/rights"
	"github.com/tenantry/tenantry/internal/tenant"
)

// RemoteOptions say where the service is that searches for this server.
type RemoteOptions struct {
	// Servers are its URLs, https://HOST:PORT. Any that answers will do.
	Servers []string
	// CAFile has the authorities by which it is verified.
	CAFile string
	// CertFile and KeyFile are what it knows this server by: those of a front proxy.
	CertFile, KeyFile string
}

// Enabled reports whether there is such a service.
func (o RemoteOptions) Enabled() bool { return len(o.Servers) > 0 }

// Validate returns what is wrong with the options.
func (o RemoteOptions) Validate() error {
	for _, server := range o.Servers {
		if u, err := url.Parse(server); err != nil || u.Scheme != "https" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.User != nil {
			return fmt.Errorf("--search-servers: %q is not of the form https://HOST:PORT", server)
		}
	}
	switch {
	case o.Enabled() && o.CAFile == "":
		return errors.New("--search-servers: name the authorities that sign their certificates, by --search-ca-file")
	case o.Enabled() && (o.CertFile == "" || o.KeyFile == ""):
		return errors.New("--search-servers: they know this server by the certificate of --proxy-client-cert-file and --proxy-client-key-file; set both")
	case !o.Enabled() && o.CAFile != "":
		return errors.New("--search-ca-file is for --search-servers, which is missing")
	}
	return nil
}

// askerHeader is the header by which a server says who asks, and where: an identity, in JSON and base64, because names may have bytes that
// headers lose. The server makes the request, and none of its clients' headers are in it.
const askerHeader = "X-Tenantry-Asker"

// identity is who asks, and where.
type identity struct {
	Name   string              `json:"name"`
	UID    string              `json:"uid,omitempty"`
	Groups []string            `json:"groups,omitempty"`
	Extra  map[string][]string `json:"extra,omitempty"`
	// Tenant is that of the user, Space the one that is searched, and Life the UID of its tenant.
	Tenant tenant.Name `json:"tenant"`
	Space  tenant.Name `json:"space"`
	Life   types.UID   `json:"life,omitempty"`
	// Elsewhere are who asks in other spaces that are searched.
	Elsewhere []identity `json:"elsewhere,omitempty"`
}

// maxAnswerSize is how many bytes of an answer of the service are read: what its client may have, and the places of what is shown, which
// have been read of the index and are half as long again at most.
const maxAnswerSize = maxAnswer + 3*index.MaxRead/2

// remote asks the service.
type remote struct {
	servers []string
	client  *http.Client
}

// remoteOf returns the service that options name, nil if there is none.
func remoteOf(options RemoteOptions) (*remote, error) {
	if !options.Enabled() {
		return nil, nil //nolint:nilnil // this process searches
	}
	client, err := rest.HTTPClientFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: options.CAFile, CertFile: options.CertFile, KeyFile: options.KeyFile}})
	if err != nil {
		return nil, fmt.Errorf("reading the credentials for the search service: %w", err)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &remote{servers: options.Servers, client: client}, nil
}

// answerRemotely has the service answer, and asks the server's authorizer about every object of its answer.
func (s *Service) answerRemotely(ctx context.Context, query string, a *asker) (*Answer, error) {
	var answer *Answer
	return answer, s.remotely(ctx, a, func() ([]place, error) {
		answer = &Answer{}
		err := s.remote.ask(ctx, http.MethodGet, Path+"?"+query, nil, a, answer)
		places := placesOfItems(answer.Items)
		for i := range answer.Related {
			places = append(places, placesOfItems(answer.Related[i].Items)...)
		}
		return places, err
	})
}

// queryRemotely has the service answer a request in GraphQL, body, which operation has been read of. Its data shows no object but those about
// which the authorizer is asked.
func (s *Service) queryRemotely(ctx context.Context, operation *graphql.Operation, body []byte, a *asker) (*response, error) {
	var checked *response
	err := s.remotely(ctx, a, func() ([]place, error) {
		answer := &remoteResponse{}
		if err := s.remote.ask(ctx, http.MethodPost, GraphQLPath, body, a, answer); err != nil {
			return nil, err
		}
		if checked = (&response{Errors: answer.Errors}); len(answer.Errors) > 0 { // which there are instead of data
			return nil, nil
		}
		said := make(map[shownObject]bool, len(answer.Shown))
		for i := range answer.Shown {
			said[answer.Shown[i].shown()] = true
		}
		var err error
		checked.Data, err = operation.Check(ctx, answer.Data, maxAnswer, func(object map[string]any) error {
			if !said[shownIn(object)] {
				return errUnsaid
			}
			return nil
		})
		if err != nil && ctx.Err() == nil {
			return nil, apierrors.NewInternalError(fmt.Errorf("the search service answers what was not asked: %w", err))
		}
		return answer.Shown, err
	})
	return checked, err
}

// errUnsaid means that an answer has an object that it does not tell the server of.
var errUnsaid = errors.New("it shows an object that it does not name")

// shownObject says which object is shown, as JSON has names.
type shownObject struct{ space, group, resource, namespace, name string }

func (p *place) shown() shownObject {
	return shownObject{p.Space, p.APIGroup, p.Resource, asJSON(p.Namespace), asJSON(p.Name)}
}

// asJSON returns a name as JSON has it, which has no invalid bytes.
func asJSON(name []byte) string { return string([]rune(string(name))) }

// shownIn returns which object is shown as one in GraphQL.
func shownIn(object map[string]any) shownObject {
	text := func(property string) string {
		value, _ := object[property].(string)
		return value
	}
	return shownObject{text("space"), text("apigroup"), text("resource"), text("namespace"), text("name")}
}

// remoteResponse is what the service answers to a server that asks in GraphQL.
type remoteResponse struct {
	Data   json.RawMessage `json:"data,omitempty"`
	Errors graphql.Errors  `json:"errors,omitempty"`
	// Shown are the objects that are shown.
	Shown []place `json:"shown,omitempty"`
}

// place says which object is shown.
type place struct {
	Space    string `json:"s"`
	APIGroup string `json:"g,omitempty"`
	Resource string `json:"r"`
	// Namespace and Name may have any bytes.
	Namespace []byte `json:"n,omitempty"`
	Name      []byte `json:"m"`
}

func placesOf(rows []index.Row) []place {
	places := make([]place, len(rows))
	for i := range rows {
		row := &rows[i]
		places[i] = place{row.Space.String(), row.Resource.Group, row.Resource.Resource, []byte(row.Namespace), []byte(row.Name)}
	}
	return places
}

func placesOfItems(items []Item) []place {
	places := make([]place, len(items))
	for i := range items {
		item := &items[i]
		places[i] = place{item.Space, item.APIGroup, item.Resource, []byte(item.Namespace), []byte(item.Name)}
	}
	return places
}

// remotely has something asked until the server's authorizer allows every object that is shown.
func (s *Service) remotely(ctx context.Context, a *asker, ask func() ([]place, error)) error {
	served, err := s.config.Listable()
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("reading which resources there are: %w", err))
	}
	searched := map[string]bool{}
	for _, in := range a.all() {
		searched[in.space.String()] = true
	}
	for pause := attemptPause; ; pause = min(2*pause, maxAttemptPause) {
		shown, err := ask()
		if err != nil {
			return err
		}
		rows := make([]index.Row, len(shown))
		for i, p := range shown {
			if !searched[p.Space] {
				return apierrors.NewInternalError(fmt.Errorf("the search service answers for space %q", p.Space))
			}
			rows[i] = index.Row{Space: tenant.Name(p.Space), Resource: schema.GroupResource{Group: p.APIGroup, Resource: p.Resource}, Namespace: string(p.Namespace), Name: string(p.Name)}
		}
		if s.confirm(ctx, func(stored schema.GroupResource) []schema.GroupResource { return rights.ServedOf(served, stored) }, a, rows) {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return errStillChanging
		}
	}
}

// ask asks one of the servers, another one if it cannot be reached or is not ready, and reads the answer. If one has ended while it was asked,
// no other one is: the request may be why.
func (r *remote) ask(ctx context.Context, method, path string, body []byte, a *asker, answer any) error {
	err := unavailable("the search service cannot be reached; try again")
	for _, i := range rand.Perm(len(r.servers)) { //nolint:gosec // any order does
		brokenOff, asked := r.askOne(ctx, method, r.servers[i]+path, body, a, answer)
		if asked == nil || brokenOff || !apierrors.IsServiceUnavailable(asked) {
			return asked
		}
		err = asked
	}
	return err
}

// askOne asks one server. It reports whether that has broken off its answer.
func (r *remote) askOne(ctx context.Context, method, url string, body []byte, a *asker, answer any) (brokenOff bool, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	if err := a.write(req); err != nil {
		return false, apierrors.NewInternalError(err)
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	broken := unavailable("the search service has broken off its answer; try again")
	response, err := r.client.Do(req)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return true, broken
	case err != nil:
		return false, unavailable(fmt.Sprintf("the search service cannot be reached: %v", withoutAddress(err)))
	}
	defer response.Body.Close()
	read, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerSize+1))
	switch {
	case err != nil:
		return true, broken
	case len(read) > maxAnswerSize:
		return false, apierrors.NewInternalError(fmt.Errorf("the search service answers more than %d MiB; it is of another version", maxAnswerSize>>20))
	case response.StatusCode != http.StatusOK:
		return false, statusOf(response.StatusCode, read)
	case json.Unmarshal(read, answer) != nil:
		return true, broken
	}
	return false, nil
}

// statusOf returns the error that the service has answered with. Whether it knows this server is nothing to its clients.
func statusOf(code int, body []byte) error {
	status := metav1.Status{}
	if code == http.StatusUnauthorized || json.Unmarshal(body, &status) != nil || status.Status != metav1.StatusFailure {
		return unavailable(fmt.Sprintf("the search service has answered with the status %d", code))
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// withoutAddress returns an error without what clients of the server need not know.
func withoutAddress(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	var verify *x509.UnknownAuthorityError
	if errors.As(err, &verify) {
		return errors.New("its certificate is not trusted")
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("it takes too long")
	}
	return errors.New("no connection")
}

// identity returns who asks, and where.
func (a *asker) identity() identity {
	return identity{
		Name: a.user.GetName(), UID: a.user.GetUID(), Groups: a.user.GetGroups(), Extra: a.user.GetExtra(), Tenant: a.userTenant, Space: a.space, Life: a.life,
	}
}

// write says who asks, and where.
func (a *asker) write(req *http.Request) error {
	who := a.identity()
	for _, in := range a.all() {
		if in != a {
			who.Elsewhere = append(who.Elsewhere, in.identity())
		}
	}
	encoded, err := json.Marshal(who)
	if err != nil {
		return fmt.Errorf("encoding who asks: %w", err)
	}
	req.Header.Set(askerHeader, base64.RawURLEncoding.EncodeToString(encoded))
	return nil
}

// Handler serves searches of servers, and health checks of everybody.
func (s *Service) Handler(servers authenticator.Request) http.Handler {
	searches := s.WithSearch(http.NotFoundHandler())
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/livez", "/healthz":
			fmt.Fprintln(w, "ok")
			return
		case "/readyz":
			if err := s.Ready(req.Context()); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintln(w, "ok")
			return
		}
		ctx, err := askedBy(req, servers)
		if err != nil {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		searches.ServeHTTP(w, req.WithContext(ctx))
	})
}

// askedBy returns the context of a request as the server that sends it has had it.
func askedBy(req *http.Request, servers authenticator.Request) (context.Context, error) {
	if _, ok, err := servers.AuthenticateRequest(req); err != nil || !ok {
		return nil, errors.Join(err, errors.New("it is none of a server"))
	}
	decoded, err := base64.RawURLEncoding.DecodeString(req.Header.Get(askerHeader))
	if err != nil {
		return nil, fmt.Errorf("header %s: %w", askerHeader, err)
	}
	var who identity
	if err := json.Unmarshal(decoded, &who); err != nil {
		return nil, fmt.Errorf("header %s: %w", askerHeader, err)
	}
	ctx, err := who.in(context.WithValue(req.Context(), forServerKey{}, true))
	if err != nil {
		return nil, err
	}
	v := &visit{admitted: map[tenant.Name]*asker{}, final: true}
	for i := range who.Elsewhere {
		in, err := who.Elsewhere[i].in(req.Context())
		if err != nil {
			return nil, err
		}
		if v.admitted[who.Elsewhere[i].Space], err = newAsker(in); err != nil {
			return nil, err
		}
	}
	return withVisit(ctx, v), nil
}

// in returns the context of a request as the server has had it in one space.
func (who *identity) in(ctx context.Context) (context.Context, error) {
	for _, n := range []tenant.Name{who.Tenant, who.Space} { // none is never the system space
		if _, err := tenant.Parse(string(n)); err != nil {
			return nil, fmt.Errorf("header %s: %w", askerHeader, err)
		}
	}
	r := &tenant.Request{Requested: who.Space.Scope(), Authenticated: who.Tenant}
	if who.Tenant.IsSpace() && who.Tenant != who.Space {
		r.Admit(who.Tenant) // as the server has
	}
	u := &user.DefaultInfo{Name: who.Name, UID: who.UID, Groups: who.Groups, Extra: who.Extra}
	ctx = tenant.WithRequest(request.WithUser(ctx, u), r)
	if who.Space.IsSpace() {
		ctx = tenant.WithUID(ctx, who.Space, who.Life)
	}
	return ctx, nil
}

type forServerKey struct{}

// isForServer reports whether a server asks, which is told what is shown to ask its own authorizer about it.
func isForServer(ctx context.Context) bool { return ctx.Value(forServerKey{}) != nil }

// Servers tells servers by their certificates: of an authority, and with one of some names, if there are some.
func Servers(ca x509request.VerifyOptionFunc, names []string) authenticator.Request {
	verified := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{}}, true, nil
	})
	return x509request.NewDynamicCAVerifier(ca, verified, headerrequest.StaticStringSlice(names))
}

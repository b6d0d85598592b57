package search

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/process/signal"
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

// maxAnswerSize is how many bytes of an answer of the service are read: what its client may have, and the places of
// what is shown, which have been read of the index and are half as long again at most.
const maxAnswerSize = maxAnswer + 3*index.MaxRead/2

// client returns what the service is asked by.
func (o RemoteOptions) client() (*http.Client, error) {
	client, err := rest.HTTPClientFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: o.CAFile, CertFile: o.CertFile, KeyFile: o.KeyFile}})
	if err != nil {
		return nil, fmt.Errorf("reading the credentials for the search service: %w", err)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client, nil
}

// remote has the service find, and asks the server's authorizer about every object of its answer.
type remote struct {
	config *Config
	client *http.Client
}

// run implements finder.
func (r *remote) run(ctx context.Context) { <-ctx.Done() }

// session implements finder.
func (r *remote) session() *session { return nil }

// signals implements finder.
func (r *remote) signals() bool { return false }

// search implements finder.
func (r *remote) search(ctx context.Context, a *asker, _ *question, parameters string) (answer *Answer, err error) {
	err = r.confirmed(ctx, a, func() ([]shownRef, error) {
		answer = &Answer{}
		err := r.ask(ctx, http.MethodGet, Path+"?"+parameters, nil, a, answer)
		refs := refsOfItems(answer.Items)
		for i := range answer.Related {
			refs = append(refs, refsOfItems(answer.Related[i].Items)...)
		}
		return refs, err
	})
	return answer, err
}

// query implements finder. The data shows no object but those about which the authorizer is asked.
func (r *remote) query(ctx context.Context, a *asker, operation *graphql.Operation, body []byte) (checked *response, err error) {
	err = r.confirmed(ctx, a, func() ([]shownRef, error) {
		answer := &response{}
		if err := r.ask(ctx, http.MethodPost, GraphQLPath, body, a, answer); err != nil {
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

// matching implements finder.
func (r *remote) matching(ctx context.Context, a *asker, _ *question, input *graphql.Input) (states, error) {
	filters := make([]map[string]any, 0, len(input.Filters))
	for _, f := range input.Filters {
		filters = append(filters, map[string]any{"property": f.Property, "values": f.Values})
	}
	body, err := json.Marshal(graphql.Request{Query: "query q($input: [SearchInput]) { search(input: $input) { items } messages { id } }",
		Variables: map[string]any{"input": map[string]any{"keywords": input.Keywords, "filters": filters, "limit": maxWatched + 1}}})
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	operation, errs := graphql.Parse(body)
	if errs != nil {
		return nil, graphql.Refuse(errs)
	}
	answer, err := r.query(ctx, a, operation, body)
	if err != nil {
		return nil, err
	}
	var data struct {
		Search   []struct{ Items []json.RawMessage }
		Messages []struct{ ID string }
	}
	switch {
	case len(answer.Errors) > 0:
		return nil, graphql.Refuse(answer.Errors)
	case json.Unmarshal(answer.Data, &data) != nil || len(data.Search) != 1:
		return nil, unavailable("the search service has broken off its answer; try again")
	case len(data.Search[0].Items) > maxWatched,
		slices.ContainsFunc(data.Messages, func(m struct{ ID string }) bool { return m.ID == messageCut }):
		return nil, errTooManyWatched
	}
	return newStates(data.Search[0].Items)
}

// errUnsaid means that an answer has an object that it does not tell the server of.
var errUnsaid = errors.New("it shows an object that it does not name")

// shownObject says which object is shown, as JSON has names.
type shownObject struct{ space, group, resource, namespace, name string }

func (p *shownRef) shown() shownObject {
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

// shownRef says which object is shown.
type shownRef struct {
	Space    string `json:"s"`
	APIGroup string `json:"g,omitempty"`
	Resource string `json:"r"`
	// Namespace and Name may have any bytes.
	Namespace []byte `json:"n,omitempty"`
	Name      []byte `json:"m"`
}

func refsOf(shown []index.Ref) []shownRef {
	refs := make([]shownRef, len(shown))
	for i, of := range shown {
		refs[i] = shownRef{of.Space.String(), of.Resource.Group, of.Resource.Resource, []byte(of.Namespace), []byte(of.Name)}
	}
	return refs
}

func refsOfItems(items []Item) []shownRef {
	refs := make([]shownRef, len(items))
	for i := range items {
		item := &items[i]
		refs[i] = shownRef{item.Space, item.APIGroup, item.Resource, []byte(item.Namespace), []byte(item.Name)}
	}
	return refs
}

// confirmed has something asked until the server's authorizer allows every object that is shown.
func (r *remote) confirmed(ctx context.Context, a *asker, ask func() ([]shownRef, error)) error {
	served, err := r.config.Listable()
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
		refs := make([]index.Ref, len(shown))
		for i, p := range shown {
			if !searched[p.Space] {
				return apierrors.NewInternalError(fmt.Errorf("the search service answers for space %q", p.Space))
			}
			refs[i] = index.Ref{Space: tenant.Name(p.Space), Ref: objects.Ref{
				Resource: schema.GroupResource{Group: p.APIGroup, Resource: p.Resource}, Namespace: string(p.Namespace), Name: string(p.Name),
			}}
		}
		if r.config.confirm(ctx, func(stored schema.GroupResource) []schema.GroupResource { return rights.ServedOf(served, stored) }, a, refs) {
			return nil
		}
		if signal.Pause(ctx, pause) != nil {
			return errStillChanging
		}
	}
}

// ask asks one of the servers, another one if it cannot be reached or is not ready, and reads the answer. If one has
// ended while it was asked, no other one is: the request may be why.
func (r *remote) ask(ctx context.Context, method, path string, body []byte, a *asker, answer any) error {
	err := unavailable("the search service cannot be reached; try again")
	for _, i := range rand.Perm(len(r.config.Remote.Servers)) { // any order does
		brokenOff, asked := r.askOne(ctx, method, r.config.Remote.Servers[i]+path, body, a, answer)
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

// statusOf returns the error that the service has answered with. Whether it knows this server is nothing to its
// clients.
func statusOf(code int, body []byte) error {
	status := metav1.Status{}
	if code == http.StatusUnauthorized || json.Unmarshal(body, &status) != nil || status.Status != metav1.StatusFailure {
		return unavailable(fmt.Sprintf("the search service has answered with the status %d", code))
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// withoutAddress returns an error without what clients of the server need not know.
func withoutAddress(err error) error {
	if of, is := errors.AsType[*url.Error](err); is {
		err = of.Err
	}
	if _, is := errors.AsType[*x509.UnknownAuthorityError](err); is {
		return errors.New("its certificate is not trusted")
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("it takes too long")
	}
	return errors.New("no connection")
}

package search

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"

	"github.com/tenantry/tenantry/internal/search/graphql"
	"github.com/tenantry/tenantry/internal/search/query"
	"github.com/tenantry/tenantry/internal/tenant"
)

// maxSpaces is how many spaces a request is about at most. Each of them lets it in by a request of its own.
const maxSpaces = 50

// searchedBy returns the spaces that a query is about: of its own one and those that it names, the ones that its
// filters take.
func searchedBy(q query.Query, own tenant.Name) ([]tenant.Name, error) {
	named := []tenant.Name{own}
	isSpace := func(f query.Filter) bool { return f.Property == "space" }
	for _, f := range q.Filters {
		for _, v := range f.Any {
			if !isSpace(f) || v.Parts != nil || v.Ordered != "" {
				continue
			}
			n, err := tenant.Parse(v.Text)
			if err != nil {
				return nil, fmt.Errorf("filter space: %w", err)
			}
			if !slices.Contains(named, n) {
				named = append(named, n)
			}
		}
	}
	taken := slices.DeleteFunc(slices.Clone(named), func(n tenant.Name) bool {
		return slices.ContainsFunc(q.Filters, func(f query.Filter) bool { return isSpace(f) && !f.Matches(string(n)) })
	})
	if len(taken) == 0 { // nothing can match
		return named[:1], nil
	}
	return taken, nil
}

// visit is a request that may be about other spaces than its own one. It travels in the context of the request, where
// no client puts it.
type visit struct {
	// looks is whether nothing is asked but whether the user may search a space, and found who that is there.
	looks bool
	found *asker
	// named are spaces that must let the request in before it is answered, and body is what was read of it.
	named []tenant.Name
	body  []byte
	// admitted are who asks in other spaces. They are all that there will be if it is final.
	admitted map[tenant.Name]*asker
	final    bool
}

type visitKey struct{}

func withVisit(ctx context.Context, v *visit) context.Context {
	return context.WithValue(ctx, visitKey{}, v)
}

func visitFrom(ctx context.Context) *visit {
	v, _ := ctx.Value(visitKey{}).(*visit)
	return v
}

// errNotLetIn means that other spaces must let the request in before it can be answered.
var errNotLetIn = errors.New("other spaces are searched, too")

// enter has a request ask in the spaces that it is about. Its error is errNotLetIn if that is for WithSpaces to see to.
func (a *asker) enter(ctx context.Context, spaces []tenant.Name) error {
	if len(spaces) > maxSpaces {
		return badRequest(fmt.Errorf("the search names %d spaces, and may name %d", len(spaces), maxSpaces))
	}
	v := visitFrom(ctx)
	var missing []tenant.Name
	a.places = nil
	for _, n := range spaces {
		switch {
		case n == a.space:
			a.places = append(a.places, a)
		case v != nil && v.admitted[n] != nil:
			a.places = append(a.places, v.admitted[n])
		default:
			missing = append(missing, n)
		}
	}
	switch {
	case len(missing) == 0:
		return nil
	case v == nil || v.final:
		return apierrors.NewInternalError(fmt.Errorf("nobody has let the search into %q", missing))
	}
	v.named = missing
	return errNotLetIn
}

// WithSpaces lets searches into the spaces that they name beside their own one. Each of these is asked by a request to
// handler, as if the user had searched there: so it is authenticated, authorized, limited and audited by each. It
// stands around authentication.
func (s *Service) WithSpaces(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !isPath(req.URL.Path) {
			handler.ServeHTTP(w, req)
			return
		}
		asked := *tenant.RequestFrom(req.Context()) // before anything is noted in it
		v := &visit{}
		handler.ServeHTTP(w, req.Clone(withVisit(req.Context(), v))) // authentication takes the credentials away
		if len(v.named) == 0 {
			return
		}
		v.admitted = map[tenant.Name]*asker{}
		for _, n := range v.named {
			found, err := lookInto(handler, req, &asked, n)
			if err != nil {
				responsewriters.ErrorNegotiated(err, s.config.Serializer, schema.GroupVersion{Version: "v1"}, w, req)
				return
			}
			v.admitted[n] = found
		}
		v.final = true
		again := req.Clone(withVisit(tenant.WithRequest(req.Context(), &asked), v))
		again.Body = io.NopCloser(bytes.NewReader(v.body))
		handler.ServeHTTP(w, again)
	})
}

// lookInto returns who asks in a space, or why the space does not let the request in.
func lookInto(handler http.Handler, req *http.Request, asked *tenant.Request, n tenant.Name) (*asker, error) {
	look := &visit{looks: true}
	ctx := tenant.WithRequest(withVisit(withOperation(req.Context(), nil), look), &tenant.Request{Requested: n.Scope(), Impersonated: asked.Impersonated})
	into := req.Clone(ctx)
	into.Body, into.ContentLength = http.NoBody, 0
	answer := replyOf(handler, into)
	if answer.status == http.StatusOK && look.found != nil {
		return look.found, nil
	}
	if answer.status == http.StatusOK {
		return nil, apierrors.NewInternalError(fmt.Errorf("space %q does not say who asks", n))
	}
	return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: int32(answer.status), Reason: reasonOf(answer.status), // it is a status of HTTP
		Message: fmt.Sprintf("space %q: %s", n, answer.message()), Details: &metav1.StatusDetails{RetryAfterSeconds: int32(answer.retryAfter().Seconds())}, // it is a minute at most
	}}
}

// reasonOf returns the reason that clients know a status by.
func reasonOf(status int) metav1.StatusReason {
	return apierrors.NewGenericServerResponse(status, "get", schema.GroupResource{Resource: "search"}, "", "", 0, true).ErrStatus.Reason
}

// look notes who asks in a space that is only looked into, and reports whether it is.
func look(ctx context.Context) (looks bool, err error) {
	v := visitFrom(ctx)
	if v == nil || !v.looks {
		return false, nil
	}
	v.found, err = newAsker(ctx)
	return true, err
}

// naming collects the spaces that a request in GraphQL is about.
type naming struct {
	root
	own   tenant.Name
	named []tenant.Name
}

var _ graphql.Root = &naming{}

// namedBy returns the spaces that a request in GraphQL is about.
func namedBy(ctx context.Context, operation *graphql.Operation, r root, own tenant.Name) ([]tenant.Name, error) {
	n := &naming{root: r, own: own}
	if _, err := operation.Answer(ctx, n, maxAnswer); err != nil {
		return nil, err
	}
	if len(n.named) == 0 {
		return []tenant.Name{own}, nil
	}
	return n.named, nil
}

func (n *naming) note(input *graphql.Input) error {
	asked, err := n.questionOf(input)
	if err != nil {
		return err
	}
	spaces, err := searchedBy(asked.query, n.own)
	if err != nil {
		return graphql.Refuse(err)
	}
	for _, space := range spaces {
		if !slices.Contains(n.named, space) {
			n.named = append(n.named, space)
		}
	}
	return nil
}

// Search implements graphql.Root.
func (n *naming) Search(_ context.Context, input graphql.Input, _ graphql.Wants) (*graphql.Result, error) {
	return &graphql.Result{}, n.note(&input)
}

// Complete implements graphql.Root.
func (n *naming) Complete(_ context.Context, _ string, input graphql.Input, _ int) ([]string, error) {
	return nil, n.note(&input)
}

// Properties implements graphql.Root.
func (n *naming) Properties(_ context.Context, input graphql.Input) ([]string, error) {
	return nil, n.note(&input)
}

// Messages implements graphql.Root.
func (n *naming) Messages() []graphql.Message { return nil }

package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/search/graphql"
	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/search/query"
)

// response is the answer to a request in GraphQL.
type response struct {
	Data   json.RawMessage `json:"data,omitempty"`
	Errors graphql.Errors  `json:"errors,omitempty"`
	// Shown are the objects that are shown. Servers alone are told.
	Shown []shownRef `json:"shown,omitempty"`
}

// serveGraphQL answers a query. All of it is of one state. What is wrong with it is said as GraphQL does; who
// may not ask, and what cannot be answered now, as all of the server does.
func (s *Service) serveGraphQL(req *http.Request) (json.RawMessage, error) {
	if op := operationFrom(req.Context()); op != nil {
		return json.RawMessage("{}"), s.serveOperation(req.Context(), op)
	}
	body, err := bodyOf(req)
	if err != nil {
		return nil, err
	}
	a, err := newAsker(req.Context())
	if err != nil {
		return nil, err
	}
	operation, errs := graphql.Parse(body)
	if errs != nil {
		return encoded(response{Errors: errs})
	}
	if v := visitFrom(req.Context()); v != nil {
		v.body = body
	}
	if operation.IsSubscription() {
		return encoded(response{Errors: graphql.Refused("subscriptions need a web socket of the protocol graphql-transport-ws")})
	}
	return s.query(req.Context(), a, operation, body)
}

// enter has a request in GraphQL ask in the spaces that it is about.
func (s *Service) enter(ctx context.Context, a *asker, operation *graphql.Operation) error {
	named, err := namedBy(ctx, operation, root{now: time.Now()}, a.space)
	if err != nil {
		return err
	}
	return a.enter(ctx, named)
}

// query answers a query, body, which operation has been read of. The answer is encoded in its turn.
func (s *Service) query(ctx context.Context, a *asker, operation *graphql.Operation, body []byte) (answer json.RawMessage, err error) {
	err = s.enter(ctx, a, operation)
	if refused := graphql.RefusedBy(err); refused != nil {
		return encoded(response{Errors: refused})
	}
	if err != nil {
		return nil, err
	}
	err = s.inTurn(ctx, a, ofGraphQL, func(ctx context.Context) error {
		found, err := s.finder.query(ctx, a, operation, body)
		if err == nil { // its data has no more than an answer may have
			answer, err = json.Marshal(found)
		}
		return err
	})
	if refused := graphql.RefusedBy(err); refused != nil {
		return encoded(response{Errors: refused})
	}
	return answer, err
}

// bodyOf returns the body of a request in JSON. Pages of other sites send no such type unless they are allowed to.
func bodyOf(req *http.Request) ([]byte, error) {
	if req.Method != http.MethodPost {
		return nil, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "graphql"}, req.Method)
	}
	if contentType, _, err := mime.ParseMediaType(req.Header.Get("Content-Type")); err != nil || contentType != "application/json" {
		return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "post", schema.GroupResource{Resource: "graphql"}, "", "send the request as application/json", 0, true)
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, graphql.MaxBytes+1))
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return nil, err // says why the body did not come
	}
	if err != nil {
		return nil, badRequest(fmt.Errorf("reading the request: %w", err))
	}
	if len(body) > graphql.MaxBytes {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("a request has %d bytes at most", graphql.MaxBytes))
	}
	return body, nil
}

// root resolves the fields of one query in one view.
type root struct {
	*view
	now time.Time
	// cut is whether there is more than a search shows.
	cut bool
}

var _ graphql.Root = &root{}

// questionOf returns what an input asks for.
func (r *root) questionOf(input *graphql.Input) (*question, error) {
	asked := &question{limit: MaxLimit, offset: max(input.Offset, 0), kinds: kindsOf(input.RelatedKinds)}
	if input.Limit > 0 {
		asked.limit = min(input.Limit, MaxLimit)
	}
	var err error
	filters := make([]query.Words, 0, len(input.Filters))
	for _, f := range input.Filters {
		filters = append(filters, query.Words{Property: f.Property, Values: f.Values})
	}
	if asked.query, err = query.New(input.Keywords, filters, r.now); err != nil {
		return nil, graphql.Refuse(err)
	}
	if asked.order, err = query.ParseOrder(input.OrderBy); err != nil {
		return nil, graphql.Refuse(fmt.Errorf("orderBy: %w", err))
	}
	return asked, nil
}

// Search implements graphql.Root.
func (r *root) Search(ctx context.Context, input graphql.Input, wants graphql.Wants) (*graphql.Result, error) {
	asked, err := r.questionOf(&input)
	if err != nil {
		return nil, err
	}
	asked.count, asked.items, asked.related = wants.Count, wants.Items, wants.Related
	found, related, err := r.find(ctx, asked)
	if err != nil {
		return nil, err
	}
	r.cut = r.cut || found.More && input.Limit <= 0 || found.Full
	result := &graphql.Result{Count: found.Count}
	if wants.Items {
		if result.Items, err = shownOf(itemsOf(found.Rows)); err != nil {
			return nil, err
		}
	}
	for i := range related {
		of := graphql.Related{Kind: related[i].Kind, Count: related[i].Count}
		if of.Items, err = shownOf(related[i].Items); err != nil {
			return nil, err
		}
		result.Related = append(result.Related, of)
	}
	return result, nil
}

// Complete implements graphql.Root.
func (r *root) Complete(ctx context.Context, property string, input graphql.Input, limit int) ([]string, error) {
	asked, err := r.questionOf(&input)
	if err != nil {
		return nil, err
	}
	if limit <= 0 || limit > MaxLimit {
		limit = MaxLimit
	}
	return r.complete(ctx, asked.query, query.PropertyNamed(property), limit)
}

// Properties implements graphql.Root.
func (r *root) Properties(ctx context.Context, input graphql.Input) ([]string, error) {
	asked, err := r.questionOf(&input)
	if err != nil {
		return nil, err
	}
	return r.properties(ctx, asked.query)
}

// messageCut is the message that says that there is more.
const messageCut = "cut"

// Messages implements graphql.Root.
func (r *root) Messages() []graphql.Message {
	var messages []graphql.Message
	if r.incomplete != "" {
		messages = append(messages, graphql.Message{ID: "incomplete", Kind: "warning", Description: r.incomplete})
	}
	if aside := r.aside(); aside != "" {
		messages = append(messages, graphql.Message{ID: "aside", Kind: "warning", Description: aside})
	}
	if r.cut {
		messages = append(messages, graphql.Message{ID: messageCut, Kind: "information", Description: fmt.Sprintf("a search shows %d objects at most, and %d MiB of them; use more filters", MaxLimit, index.MaxPage>>20)})
	}
	return messages
}

func itemsOf(rows []index.Row) []Item {
	items := make([]Item, len(rows))
	for i := range rows {
		items[i] = newItem(&rows[i])
	}
	return items
}

// shownOf returns objects in JSON as the console has them.
func shownOf(items []Item) ([]json.RawMessage, error) {
	all, size := make([]json.RawMessage, len(items)), 0
	for i := range items {
		var err error
		if all[i], err = json.Marshal(mapOf(&items[i])); err != nil {
			return nil, fmt.Errorf("encoding an object: %w", err)
		}
		if size += len(all[i]); size > maxAnswer {
			return nil, errTooLarge
		}
	}
	return all, nil
}

// mapOf returns an object as the console has it: values by the names of their properties, several in one text.
func mapOf(item *Item) map[string]any {
	m := map[string]any{
		"_uid": item.UID, "space": item.Space, "namespace": item.Namespace, "kind": item.Kind, "apigroup": item.APIGroup,
		"resource": item.Resource, "name": item.Name,
	}
	for name, values := range item.Properties {
		m[name] = joined(values)
	}
	for name, value := range map[string]string{"status": item.Status, "label": joined(pairs(item.Labels)), "annotation": joined(pairs(item.Annotations))} {
		if value != "" {
			m[name] = value
		}
	}
	if item.Created != nil {
		m["created"] = item.Created.Format(time.RFC3339)
	}
	if len(item.Relations) > 0 {
		m["_relations"] = item.Relations
	}
	return m
}

package search

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/search/query"
)

// answer answers a search.
func (v *view) answer(ctx context.Context, asked *question) (*Answer, error) {
	found, related, err := v.find(ctx, asked)
	if err != nil {
		return nil, err
	}
	answer := &Answer{Revision: v.revision, Count: found.Count, Items: itemsOf(found.Rows), Related: related}
	if found.More {
		answer.Continue = newContinue(&found.Rows[len(found.Rows)-1], asked.order)
	}
	if v.incomplete != "" {
		answer.Messages = append(answer.Messages, v.incomplete)
	}
	if aside := v.aside(); aside != "" {
		answer.Messages = append(answer.Messages, aside)
	}
	return answer, nil
}

// aside says that of some objects there is no more than their name, empty if there are none.
func (v *view) aside() string {
	if v.snapshot.Aside == 0 {
		return ""
	}
	return fmt.Sprintf("%d objects that you may list are known to the search by kind, namespace and name alone, because its database has refused the rest; "+
		"filters and keywords may not find them", v.snapshot.Aside)
}

// find returns what matches, and what is related to it.
func (v *view) find(ctx context.Context, asked *question) (index.Found, []Related, error) {
	scopes, err := v.scopesOf(asked.query)
	if err != nil {
		return index.Found{}, nil, err
	}
	found, err := v.snapshot.Select(ctx, index.Selection{
		Scopes: scopes, Query: asked.query, Order: asked.order, Limit: asked.limit, Offset: asked.offset, After: asked.after, Bytes: asked.bytes,
		NoCount: !asked.count, NoRows: !asked.items && !asked.related,
	})
	if err != nil {
		return found, nil, unreadable(err)
	}
	if asked.items {
		for i := range found.Rows {
			v.show(&found.Rows[i])
		}
	}
	if !asked.related {
		return found, nil, nil
	}
	related, err := v.related(ctx, found.Rows, asked.kinds)
	return found, related, err
}

// scopesOf returns what may be seen of the spaces that a query is about.
func (v *view) scopesOf(q query.Query) ([]index.Scope, error) {
	spaces, err := searchedBy(q, v.own)
	if err != nil {
		return nil, badRequest(err)
	}
	scopes := make([]index.Scope, len(spaces))
	for i, n := range spaces {
		known := false
		if scopes[i], known = v.scopes[n]; !known {
			return nil, apierrors.NewInternalError(fmt.Errorf("nobody has let the search into %q", n))
		}
	}
	return scopes, nil
}

// complete returns the values of a property among what matches.
func (v *view) complete(ctx context.Context, q query.Query, property string, limit int) ([]string, error) {
	return v.texts(q, func(scopes []index.Scope) ([]string, error) {
		return v.snapshot.Values(ctx, scopes, q, property, limit)
	})
}

// properties returns the names of the properties that what matches has.
func (v *view) properties(ctx context.Context, q query.Query) ([]string, error) {
	return v.texts(q, func(scopes []index.Scope) ([]string, error) { return v.snapshot.Names(ctx, scopes, q) })
}

// texts reads texts of what a query is about.
func (v *view) texts(q query.Query, read func([]index.Scope) ([]string, error)) ([]string, error) {
	scopes, err := v.scopesOf(q)
	if err != nil {
		return nil, err
	}
	texts, err := read(scopes)
	if err != nil {
		return nil, unreadable(err)
	}
	return texts, nil
}

package admission

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/openapi"

	"github.com/tenantry/tenantry/internal/server/storage/cachememory"
)

// converterShare is how many bytes of memory a converter of types takes for each byte of the schemas that it is made
// of.
const converterShare = 4

// converterAge is how old a plugin is that ends where there is no room for another converter.
const converterAge = time.Minute

// converters count the converters of types that mutating policies of a space make of the schemas of group versions, and
// keep: some 14 MB of those that are built in.
type converters struct {
	*cachememory.Copy
	spaceReads
	ctx  context.Context // of the plugin, whose end frees the converters of group versions that have gone
	made time.Time
}

func newConverters(ctx context.Context, by spaceReads) *converters {
	counted := by.memory.NewCopy(by.of.tenant)
	context.AfterFunc(ctx, counted.Forget)
	return &converters{counted, by, ctx, time.Now()}
}

// countedClient counts the schemas that are read.
type countedClient struct {
	openapi.Client
	converters *converters
}

// Paths implements openapi.Client.
func (c countedClient) Paths() (map[string]openapi.GroupVersion, error) {
	paths, err := c.Client.Paths()
	counted := make(map[string]openapi.GroupVersion, len(paths))
	for path, of := range paths {
		counted[path] = countedSchemas{of, path, c.converters}
	}
	return counted, err
}

type countedSchemas struct {
	openapi.GroupVersion
	path       string
	converters *converters
}

// Schema implements openapi.GroupVersion.
func (s countedSchemas) Schema(contentType string) ([]byte, error) {
	data, err := s.GroupVersion.Schema(contentType)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("schemas of %s, which mutating policies need", s.path)
	bytes := converterShare * len(data)
	if err := s.converters.Set(types.NamespacedName{Name: s.path}, bytes); err != nil {
		s.converters.refusals.set(what, err)
		if time.Since(s.converters.made) > converterAge {
			s.converters.forget()
		}
		return nil, err
	}
	s.converters.refusals.remove(what)
	pace(s.converters.ctx, &s.converters.reads.converters, s.converters.of.tenant, bytes)
	return data, nil
}

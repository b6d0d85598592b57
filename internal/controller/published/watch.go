package published

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/tenantry/tenantry/internal/follow"
	"github.com/tenantry/tenantry/internal/progress"
)

// observer gets the metadata of objects.
type observer = follow.Index[*metav1.PartialObjectMetadata]

// observe keeps an observer up to date with the objects of a resource until ctx ends. seen has begun when the observer
// knows all objects.
func observe(ctx context.Context, client metadata.Interface, r schema.GroupVersionResource, selectors metav1.ListOptions, to observer, seen *progress.Progress) {
	follow.Reflect(ctx, "published-objects", follow.Metadata(client, r, selectors), to, seen)
}

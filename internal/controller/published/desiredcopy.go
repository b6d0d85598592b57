package published

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"unique"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	configv1alpha1 "github.com/tenantry/tenantry/api/config/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// desiredCopy is a published object as it is to be in every space.
type desiredCopy struct {
	object   Object
	resource schema.GroupVersionResource
	// version of the published object.
	version string
	// from is the copies' PublishedFromAnnotation.
	from unique.Handle[string]
	// force replaces tenants' objects of the same name.
	force bool
	// implied is true for a namespace that is published only because there are
	// published objects in it: a space's own is as good.
	implied bool
	// head and tail are the copy in JSON, around its resource version.
	head, tail []byte
	// published is the published object itself, without content.
	published *metav1.PartialObjectMetadata
}

// notPublishable is why an object does not leave the system space.
type notPublishable string

// Error implements error.
func (e notPublishable) Error() string { return string(e) }

const errCredentials notPublishable = "it holds credentials of the system space, which are never published; publish a Secret of another type"

func errInvalidValue(value string) error {
	return notPublishable(fmt.Sprintf("annotation %s has the value %q, which publishes nothing; make it %q, %q or %q, or remove it",
		tenant.PublishedAnnotation, value, tenant.PublishedTrue, tenant.PublishedForce, tenant.PublishedFalse))
}

func isNotPublishable(err error) bool {
	var reason notPublishable
	return errors.As(err, &reason)
}

// notCopied are annotations that say something about the published object alone.
var notCopied = []string{
	tenant.Annotation, tenant.PublishedAnnotation, tenant.PublishedFromAnnotation,
	corev1.LastAppliedConfigAnnotation,
}

// newDesiredCopy makes the copy of an object. What is about the object in its own
// space stays there: owners and finalizers name what a space does not have.
func newDesiredCopy(object Object, resource schema.GroupVersionResource, source *unstructured.Unstructured) (*desiredCopy, error) {
	if kind, _, _ := unstructured.NestedString(source.Object, "type"); source.GetKind() == "Secret" && configv1alpha1.HoldsCredentials(corev1.SecretType(kind)) {
		return nil, errCredentials
	}
	desired := &desiredCopy{
		object: object, resource: resource, version: source.GetResourceVersion(),
		force:   source.GetAnnotations()[tenant.PublishedAnnotation] == tenant.PublishedForce,
		implied: !tenant.IsPublished(source.GetAnnotations()),
		published: &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: source.GetAPIVersion(), Kind: source.GetKind()},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: source.GetNamespace(), Name: source.GetName(), UID: source.GetUID(), Annotations: source.GetAnnotations(),
			},
		},
	}
	content := maps.Clone(source.Object)
	delete(content, "status")
	switch object.Resource.Resource {
	case "clusterroles":
		// The copy has the rules that the system space aggregates. A tenant must not
		// be able to add to them.
		delete(content, "aggregationRule")
	case "namespaces":
		if content["spec"] != nil { // which has finalizers, and nothing else
			content["spec"] = map[string]any{"finalizers": []any{string(corev1.FinalizerKubernetes)}}
		}
	}
	annotations, labels := map[string]string{}, map[string]string{}
	maps.Copy(annotations, source.GetAnnotations())
	maps.Copy(labels, source.GetLabels())
	for _, key := range notCopied {
		delete(annotations, key)
	}
	// The hash is that of earlier versions, whose copies are current.
	labels[tenant.Former(tenant.PublishedCopyLabel)] = tenant.PublishedCopy
	metadata := map[string]any{"name": object.Name, "labels": labels, "annotations": annotations}
	if object.Namespace != "" {
		metadata["namespace"] = object.Namespace
	}
	content["metadata"] = metadata
	plain, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", object, err)
	}
	sum := sha256.Sum256(plain)
	from := cmp.Or(string(source.GetUID()), "implied") + "/" + hex.EncodeToString(sum[:8])
	desired.from = unique.Make(from)
	annotations[tenant.PublishedFromAnnotation] = from
	delete(labels, tenant.Former(tenant.PublishedCopyLabel))
	labels[tenant.PublishedCopyLabel] = tenant.PublishedCopy
	place := uuid.NewString() // nothing in the object is equal to it
	metadata["resourceVersion"] = place
	marked, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", object, err)
	}
	desired.head, desired.tail, _ = bytes.Cut(marked, []byte(place))
	return desired, nil
}

// impliedNamespace is the desired copy of a namespace in which there are published
// objects, for spaces that have none of that name. Its labels are not copied: those
// of a namespace that is published itself are.
func impliedNamespace(name string) (*desiredCopy, error) {
	source := &unstructured.Unstructured{}
	source.SetAPIVersion("v1")
	source.SetKind("Namespace")
	source.SetName(name)
	return newDesiredCopy(namespaceObject(name), corev1.SchemeGroupVersion.WithResource("namespaces"), source)
}

// body returns the copy that replaces a version of what is in a space, or a new
// one if version is 0.
func (d *desiredCopy) body(version uint64) []byte {
	body := bytes.Clone(d.head)
	if version != 0 {
		body = strconv.AppendUint(body, version, 10)
	}
	return append(body, d.tail...)
}

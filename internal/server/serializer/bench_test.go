package serializer

import (
	"fmt"
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tenantry/tenantry/internal/tenant"
)

// BenchmarkList encodes lists of 500 small objects as upstream does, without a tenant,
// and as it is done here, with one.
func BenchmarkList(b *testing.B) {
	upstream := streaming.WithoutConversion()
	for _, mediaType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		for name, tc := range map[string]struct {
			serializer runtime.NegotiatedSerializer
			tenant     tenant.Name
		}{"upstream": {upstream, tenant.System}, "tenant": {Wrap(upstream, testLinks), "acme"}} {
			b.Run(mediaType+"/"+name, func(b *testing.B) {
				info, ok := runtime.SerializerInfoForMediaType(tc.serializer.SupportedMediaTypes(), mediaType)
				if !ok {
					b.Fatalf("no serializer for %q", mediaType)
				}
				encoder := tc.serializer.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion)
				list := &corev1.ConfigMapList{}
				for i := range 500 {
					object := configMap(tc.tenant, fmt.Sprint("c-", i))
					object.ManagedFields = []metav1.ManagedFieldsEntry{{
						Manager: "bench", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
						Time: &metav1.Time{}, FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:data":{".":{},"f:k":{}}}`)},
					}}
					list.Items = append(list.Items, object)
				}
				b.ReportAllocs()
				for b.Loop() {
					if err := encoder.Encode(list, io.Discard); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

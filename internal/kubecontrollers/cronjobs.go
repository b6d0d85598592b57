package kubecontrollers

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batchinformers "k8s.io/client-go/informers/batch/v1"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	"k8s.io/kubernetes/pkg/controller/cronjob"
)

func newCronJob(ctx context.Context, e *environment) (runner, error) {
	batch := e.informers.Batch().V1()
	bounds := cronJobBounds{batch.Jobs().Lister(), time.Now}
	return cronjob.NewControllerV2(ctx, ownedJobs(batch.Jobs(), batch.CronJobs().Lister()),
		bounds.offered(offeredIfInTurn(e.debts, batch.CronJobs().Informer(), batchlisters.NewCronJobLister)), boundedCronJobClient{e.client, bounds})
}

// ownedJobs returns the Jobs of CronJobs for upstream's controller, which looks for those of
// a CronJob by its UID alone, in all namespaces. A Job of another space that names the UID
// would count as an active or finished one of the CronJob. Owners are in the namespace of
// what they own.
func ownedJobs(jobs batchinformers.JobInformer, cronJobs batchlisters.CronJobLister) offered[batchlisters.JobLister] {
	owned := offeredOnly(exempting(jobs.Informer()), batchlisters.NewJobLister, func(job *batchv1.Job) bool {
		ref := metav1.GetControllerOf(job)
		if ref == nil {
			return false
		}
		owner, err := cronJobs.CronJobs(job.Namespace).Get(ref.Name)
		return err == nil && owner.UID == ref.UID
	})
	owned.lister = jobs.Lister()
	return owned
}

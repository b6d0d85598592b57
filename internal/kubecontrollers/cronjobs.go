package kubecontrollers

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batchinformers "k8s.io/client-go/informers/batch/v1"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/cronjob"
)

func newCronJob(ctx context.Context, e *environment) (runner, error) {
	batch := e.informers.Batch().V1()
	bounds := cronJobBounds{batch.Jobs().Lister(), time.Now}
	return cronjob.NewControllerV2(ctx, ownedJobs{batch.Jobs(), batch.CronJobs().Lister()},
		boundedCronJobs{offeredIfInTurn(e.debts, batch.CronJobs().Informer(), batchlisters.NewCronJobLister), bounds}, boundedCronJobClient{e.client, bounds})
}

// ownedJobs are the Jobs of CronJobs for upstream's controller, which looks for those of
// a CronJob by its UID alone, in all namespaces. A Job of another space that names the UID
// would count as an active or finished one of the CronJob. Owners are in the namespace of
// what they own.
type ownedJobs struct {
	batchinformers.JobInformer
	cronJobs batchlisters.CronJobLister
}

// Informer implements batchinformers.JobInformer.
func (j ownedJobs) Informer() cache.SharedIndexInformer {
	return filtered{exempting(j.JobInformer.Informer()), j.isOwned}
}

func (j ownedJobs) isOwned(obj any) bool {
	job, ok := obj.(*batchv1.Job)
	if !ok {
		return false
	}
	ref := metav1.GetControllerOf(job)
	if ref == nil {
		return false
	}
	owner, err := j.cronJobs.CronJobs(job.Namespace).Get(ref.Name)
	return err == nil && owner.UID == ref.UID
}

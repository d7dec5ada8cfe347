"""New rows meet the stored rows of other relations: equi-joins, probe trees and session joins."""
